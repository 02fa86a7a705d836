// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules"
)

// detailsPerName is how many details (units, lists of bounds, attribute keys) of
// its metrics a service may have, for each metric name that it may have.
const detailsPerName = 10

// instancesPerHour is how many instances of a service, each on one workload, are compared
// with others in an hour. Their claims are kept for the whole window.
const instancesPerHour = 1000

// What replicas admit without knowing of each other converges. One that knows of
// little does not ask: all of those together cannot get far past the limit. From
// there on what a replica knows has to be new when it admits something.
const (
	// freely is the part of a limit that the replicas fill together without asking.
	freely = 4
	// knownFor is how long what was read of the store counts when something new is to
	// be admitted.
	knownFor = 5 * time.Second
	// readShare keeps reading of metric names, of which there may be millions, to a
	// twentieth of the time.
	readShare   = 20
	readTimeout = 2 * time.Second
	// loadTimeout is for reading everything about one organization. It may be longer than
	// any request waits: it is for the ones after it.
	loadTimeout = time.Minute
)

// QuotaConfig of a Quota. Store is needed; the zero value of another field means its
// default.
type QuotaConfig struct {
	Store          Store
	MaxServices    int           // of an organization; default assay.DefaultMaxServices
	MaxMetricNames int           // of a service; default assay.DefaultMaxMetricNames
	Window         time.Duration // of which facts are kept; default assay.DefaultWindow
	Replicas       func() int    // how many processes admit for the store; default 1
	Now            func() time.Time
	Logger         *slog.Logger
}

// Quota limits the services of an organization and the metric names of a service.
// It knows what the store keeps and what requests under way have added. It may be
// used concurrently.
//
// Several replicas that work for the store get past a limit by a quarter of it at
// most; services moreover by half of what was free of it five seconds before, by one
// for each replica, and by those of requests that were not committed yet; metric names
// by what the other replicas admit within five seconds, or within twenty times what it
// takes to read the names of the organization. Details of metrics, which no store
// knows, and instances each replica admits by itself.
type Quota struct {
	cfg   QuotaConfig
	reads singleflight.Group

	mu            sync.RWMutex
	organizations map[string]*organizationQuota
}

type organizationQuota struct {
	key      delta.HashKey
	services map[assay.ServiceKey]*serviceQuota
	warned   bool

	servicesRead, namesRead reading
	free, admitted          int // services: what was free when they were read, and how many were admitted since
}

// reading is when something was read of the store.
type reading struct {
	began time.Time
	took  time.Duration
}

type serviceQuota struct {
	pending bool // in no transaction that has been committed, as far as is known
	users   int  // requests, or parts of them, under way that were admitted while it was
	names   map[uint64]struct{}
	open    map[uint64]struct{} // those of names that are pending
	details map[uint64]struct{}

	// Those of an hour that was committed are known to the filter of facts, and counted
	// again when it forgets them.
	instances map[uint64]int      // admitted, by hour
	arriving  map[uint64]struct{} // those of them that are pending
}

// NewQuota returns a Quota over a store.
func NewQuota(cfg QuotaConfig) *Quota {
	if cfg.MaxServices <= 0 {
		cfg.MaxServices = assay.DefaultMaxServices
	}
	if cfg.MaxMetricNames <= 0 {
		cfg.MaxMetricNames = assay.DefaultMaxMetricNames
	}
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	if cfg.Replicas == nil {
		cfg.Replicas = func() int { return 1 }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Quota{cfg: cfg, organizations: make(map[string]*organizationQuota)}
}

// Load reads what the store keeps of an organization, once. After the start many
// requests may want it at the same time.
func (q *Quota) Load(ctx context.Context, organizationID string) error {
	if q.loaded(organizationID) {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	read := q.reads.DoChan("organization "+organizationID, func() (any, error) {
		if q.loaded(organizationID) {
			return nil, nil
		}
		return nil, q.read(context.WithoutCancel(ctx), organizationID) // others wait for it, too
	})
	select {
	case r := <-read:
		return r.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *Quota) loaded(organizationID string) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.organizations[organizationID] != nil
}

// HashKey returns the key of the stable hashes of an organization that is loaded.
func (q *Quota) HashKey(organizationID string) delta.HashKey {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.organizations[organizationID].key
}

// Refresh reads all organizations anew, so that what expired makes room. One that cannot
// be read keeps none of the others from it; the error tells of all of them.
func (q *Quota) Refresh(ctx context.Context) error {
	q.mu.RLock()
	ids := slices.Collect(maps.Keys(q.organizations))
	q.mu.RUnlock()
	var failures []error
	for _, id := range ids {
		if ctx.Err() != nil {
			return errors.Join(append(failures, context.Cause(ctx))...)
		}
		failures = append(failures, q.read(ctx, id))
	}
	return errors.Join(failures...)
}

// read brings everything about an organization up to date but what is in transactions
// whose outcome is open. Details, which the store does not know, are forgotten.
func (q *Quota) read(ctx context.Context, organizationID string) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	var key delta.HashKey
	if !q.loaded(organizationID) {
		var err error
		if key, err = q.cfg.Store.HashKey(ctx, organizationID); err != nil {
			return fmt.Errorf("read the hash key of organization %s: %w", organizationID, err)
		}
	}
	keys, readKeys, err := q.readServices(ctx, organizationID)
	if err != nil {
		return err
	}
	names, readNames, err := q.readNames(ctx, organizationID)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.organizations[organizationID]
	if o == nil {
		o = &organizationQuota{key: key}
		q.organizations[organizationID] = o
	}
	o.setServices(keys, readKeys, q.cfg.MaxServices)
	o.setNames(names, readNames)
	gone := uint64(max(0, q.cfg.Now().Add(-q.cfg.Window).Unix()/3600))
	for _, s := range o.services {
		s.details = nil
		maps.DeleteFunc(s.instances, func(hour uint64, _ int) bool { return hour < gone })
	}
	return nil
}

func (q *Quota) readServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, reading, error) {
	began := q.cfg.Now()
	keys, err := q.cfg.Store.KnownServices(ctx, organizationID)
	if err != nil {
		err = fmt.Errorf("read the services of organization %s: %w", organizationID, err)
	}
	return keys, reading{began, q.cfg.Now().Sub(began)}, err
}

func (q *Quota) readNames(ctx context.Context, organizationID string) (map[assay.ServiceKey][]uint64, reading, error) {
	began := q.cfg.Now()
	names, err := q.cfg.Store.KnownMetricNames(ctx, organizationID)
	if err != nil {
		err = fmt.Errorf("read the metric names of organization %s: %w", organizationID, err)
	}
	return names, reading{began, q.cfg.Now().Sub(began)}, err
}

func (o *organizationQuota) setServices(keys []assay.ServiceKey, r reading, limit int) {
	services := make(map[assay.ServiceKey]*serviceQuota, len(keys))
	for _, k := range keys {
		if k.Overflow() {
			continue
		}
		s := o.services[k]
		if s == nil {
			s = new(serviceQuota)
		}
		s.pending = false
		services[k] = s
	}
	for k, s := range o.services {
		if s.pending {
			services[k] = s
		}
	}
	o.services, o.servicesRead = services, r
	o.free, o.admitted = limit-len(services), 0
	o.warned = o.warned && o.free <= 0
}

func (o *organizationQuota) setNames(names map[assay.ServiceKey][]uint64, r reading) {
	for k, s := range o.services {
		if len(names[k])+len(s.open) == 0 {
			s.names = nil
			continue
		}
		s.names = make(map[uint64]struct{}, len(names[k])+len(s.open))
		for _, n := range names[k] {
			s.names[n] = struct{}{}
			delete(s.open, n)
		}
		maps.Copy(s.names, s.open)
	}
	o.namesRead = r
}

// learnServices reads the services of an organization again, once for all who need
// them. When it cannot, what is known has to do for a while.
func (q *Quota) learnServices(organizationID string) {
	q.learn("services of "+organizationID, func(ctx context.Context) error {
		keys, r, err := q.readServices(ctx, organizationID)
		q.mu.Lock()
		defer q.mu.Unlock()
		o := q.organizations[organizationID]
		if err != nil {
			o.servicesRead, o.admitted = r, 0
			return err
		}
		o.setServices(keys, r, q.cfg.MaxServices)
		return nil
	})
}

// learnNames does the same for metric names.
func (q *Quota) learnNames(organizationID string) {
	q.learn("names of "+organizationID, func(ctx context.Context) error {
		names, r, err := q.readNames(ctx, organizationID)
		q.mu.Lock()
		defer q.mu.Unlock()
		o := q.organizations[organizationID]
		if err != nil {
			o.namesRead = r
			return err
		}
		o.setNames(names, r)
		return nil
	})
}

func (q *Quota) learn(key string, read func(context.Context) error) {
	_, _, _ = q.reads.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		if err := read(ctx); err != nil {
			q.cfg.Logger.Warn("what other replicas admitted is not known", "error", err)
		}
		return nil, nil
	})
}

// mayExceed tells whether one that knows a count has to care about what the other
// replicas admit.
func (q *Quota) mayExceed(count, limit int) bool {
	n := q.cfg.Replicas()
	return n > 1 && count >= limit/(freely*n)
}

// old tells whether a reading no longer counts.
func (q *Quota) old(r reading, share int) bool {
	age := q.cfg.Now().Sub(r.began)
	return age < 0 || age >= max(knownFor, time.Duration(share)*r.took)
}

// unsure tells whether the services have to be read before another one is admitted.
func (q *Quota) unsure(o *organizationQuota) bool {
	if !q.mayExceed(len(o.services), q.cfg.MaxServices) {
		return false
	}
	return q.old(o.servicesRead, 1) ||
		len(o.services) < q.cfg.MaxServices && o.admitted >= max(1, o.free/(2*q.cfg.Replicas()))
}

// AdmitService implements rules.Quota.
func (q *Quota) AdmitService(organizationID string, k assay.ServiceKey) (ok, isNew bool) {
	q.mu.RLock()
	s := q.service(organizationID, k)
	known := s != nil && !s.pending
	q.mu.RUnlock()
	if known {
		return true, false
	}
	ok, isNew, sure := q.admitService(organizationID, k, false)
	if !sure {
		q.learnServices(organizationID)
		ok, isNew, _ = q.admitService(organizationID, k, true)
	}
	return ok, isNew
}

// admitService decides by what is known. Unless it has been asked for, it decides
// nothing when that is too little.
func (q *Quota) admitService(organizationID string, k assay.ServiceKey, asked bool) (ok, isNew, sure bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.organizations[organizationID]
	switch {
	case o == nil:
		return false, false, true
	case o.services[k] != nil:
		s := o.services[k]
		if s.pending { // the place is given back when all of its users do that
			s.users++
		}
		return true, s.pending, true
	case !asked && q.unsure(o):
		return false, false, false
	case len(o.services) >= q.cfg.MaxServices:
		if !o.warned {
			o.warned = true
			q.cfg.Logger.Warn("an organization is at its limit of services; telemetry of further ones counts for the overflow service",
				"organization", organizationID, "limit", q.cfg.MaxServices)
		}
		return false, false, true
	}
	o.services[k] = &serviceQuota{pending: true, users: 1}
	o.admitted++
	return true, true, true
}

// AdmitMetricName implements rules.Quota.
func (q *Quota) AdmitMetricName(organizationID string, k assay.ServiceKey, name uint64) (ok, isNew bool) {
	q.mu.RLock()
	s := q.service(organizationID, k)
	known, unsure := true, false
	if s != nil { // or else admitted a moment ago, and not committed when Refresh read the store
		_, known = s.names[name]
		unsure = !known && q.mayExceed(len(s.names), q.cfg.MaxMetricNames) && q.old(q.organizations[organizationID].namesRead, readShare)
	}
	q.mu.RUnlock()
	if known {
		return true, false
	}
	if unsure {
		q.learnNames(organizationID)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if s = q.service(organizationID, k); s == nil {
		return true, false
	}
	ok, isNew = admit(&s.names, name, q.cfg.MaxMetricNames)
	if isNew {
		admit(&s.open, name, q.cfg.MaxMetricNames)
	}
	return ok, isNew
}

// AdmitMetricDetail implements rules.Quota.
func (q *Quota) AdmitMetricDetail(organizationID string, k assay.ServiceKey, detail uint64) (ok, isNew bool) {
	q.mu.RLock()
	s := q.service(organizationID, k)
	known := true
	if s != nil {
		_, known = s.details[detail]
	}
	q.mu.RUnlock()
	if known {
		return true, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if s = q.service(organizationID, k); s == nil {
		return true, false
	}
	return admit(&s.details, detail, detailsPerName*q.cfg.MaxMetricNames)
}

// AdmitInstance implements rules.Quota.
func (q *Quota) AdmitInstance(organizationID string, k assay.ServiceKey, hour, instance uint64) (ok, isNew bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.service(organizationID, k)
	if s == nil {
		return true, false
	}
	if _, known := s.arriving[instance]; known {
		return true, false
	}
	if s.instances[hour] >= instancesPerHour {
		return false, false
	}
	if s.instances == nil {
		s.instances = make(map[uint64]int)
	}
	if s.arriving == nil {
		s.arriving = make(map[uint64]struct{})
	}
	s.instances[hour]++
	s.arriving[instance] = struct{}{}
	return true, true
}

// settleInstance says that an instance that was admitted is not pending any more, and
// whether it is committed.
func (s *serviceQuota) settleInstance(a rules.Admission, committed bool) {
	if _, pending := s.arriving[a.Instance]; !pending {
		return
	}
	if delete(s.arriving, a.Instance); len(s.arriving) == 0 {
		s.arriving = nil // it may have been large
	}
	if !committed {
		s.instances[a.Hour]--
	}
}

// admit adds to a set that has a limit.
func admit(set *map[uint64]struct{}, hash uint64, limit int) (ok, isNew bool) {
	if _, known := (*set)[hash]; known {
		return true, false
	}
	if len(*set) >= limit {
		return false, false
	}
	if *set == nil {
		*set = make(map[uint64]struct{})
	}
	(*set)[hash] = struct{}{}
	return true, true
}

func (q *Quota) service(organizationID string, k assay.ServiceKey) *serviceQuota {
	if o := q.organizations[organizationID]; o != nil {
		return o.services[k]
	}
	return nil
}

// Release gives back the places that a request took which was not committed.
func (q *Quota) Release(organizationID string, admitted []rules.Admission) {
	q.settle(organizationID, admitted, func(o *organizationQuota, s *serviceQuota, a rules.Admission) {
		switch {
		case a.MetricName != 0:
			if _, open := s.open[a.MetricName]; open {
				delete(s.names, a.MetricName)
				delete(s.open, a.MetricName)
			}
		case a.Detail != 0:
			delete(s.details, a.Detail)
		case a.Instance != 0:
			s.settleInstance(a, false)
		case s.pending:
			if s.users--; s.users <= 0 {
				delete(o.services, a.Service)
			}
		}
	})
}

// Keep says that a request was committed. What it took is for the store to tell from
// now on.
func (q *Quota) Keep(organizationID string, admitted []rules.Admission) {
	q.settle(organizationID, admitted, func(_ *organizationQuota, s *serviceQuota, a rules.Admission) {
		switch {
		case a.MetricName != 0:
			delete(s.open, a.MetricName)
		case a.Instance != 0:
			s.settleInstance(a, true)
		case a.Detail == 0:
			s.pending = false
		}
	})
}

func (q *Quota) settle(organizationID string, admitted []rules.Admission, do func(*organizationQuota, *serviceQuota, rules.Admission)) {
	if len(admitted) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.organizations[organizationID]
	if o == nil {
		return
	}
	for _, a := range admitted {
		if s := o.services[a.Service]; s != nil {
			do(o, s, a)
		}
	}
}

var _ rules.Quota = (*Quota)(nil)
