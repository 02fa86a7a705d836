// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
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
	"assay/internal/fair"
	"assay/internal/rules"
)

// detailsPerName limits the metric details (units, bucket bounds, attribute keys) of a service, per allowed metric
// name.
const detailsPerName = 10

// namesPerOrganization times MaxMetricNames limits the metric names of an organization. Details and instances have
// the same limit. The sum of the limits of all its services would take gigabytes.
const namesPerOrganization = 1000

// instancesPerHour limits the instances of a service, each on one workload, that are compared per hour. Their claims
// may be stored for the whole window.
const instancesPerHour = 1000

// Bytes charged for an admission. Organizations share two budgets of QuotaConfig.MaxMemory: one for services and
// metric names, one for details and instances.
const (
	defaultMemory = 128 << 20
	hashBytes     = 24  // a metric name, detail or instance
	serviceBytes  = 256 // a service, plus the bytes of its key
)

// Replicas admit services and names independently, and converge. Far below a limit, a replica does not read the
// store, because the replicas together cannot exceed the limit by much. Closer to the limit, it needs a recent
// reading of the store.
const (
	// optimisticFraction is the inverse of the fraction of a limit that the replicas together fill without reading the store.
	optimisticFraction = 4
	// maxReadingAge is the maximum age of a reading of the store for a new admission.
	maxReadingAge = 5 * time.Second
	// readShare limits reading metric names, possibly millions, to a twentieth of the time.
	readShare   = 20
	readTimeout = 2 * time.Second
	// loadTimeout limits reading everything about an organization. It may exceed the timeout of the requests that
	// wait: later requests profit.
	loadTimeout = time.Minute
)

// QuotaConfig configures a Quota. Store is required. Other zero fields select the default.
type QuotaConfig struct {
	Store          Store
	MaxServices    int        // per organization; default assay.DefaultMaxServices
	MaxMetricNames int        // per service; default assay.DefaultMaxMetricNames
	MaxMemory      int64      // bytes for the services and names of all organizations, about, and for the rest; default 128 MiB
	Replicas       func() int // number of processes that share the store; default 1
	Now            func() time.Time
	Logger         *slog.Logger
}

// Quota limits the services of an organization and the metric names of a service. It combines the content of the
// store with the admissions of requests in progress. It is safe for concurrent use.
//
// Several replicas together may exceed a limit by up to a quarter. For services, the bound also includes half of what
// was free five seconds earlier, one per replica, and the services of uncommitted requests. For metric names, it
// includes the names that other replicas admit within five seconds, or within twenty times the duration of reading the
// organization's names. Each replica limits metric details and instances by itself: neither are read from the store.
//
// Organizations share the memory. When it is full, an organization above its share gets no further admissions. Stored
// admissions remain, so the memory may exceed MaxMemory like the amount of a fair.Limiter. Details and instances have a
// budget of their own: there are many, and a rejected one only disables one comparison, while the telemetry of a
// rejected service is not evaluated at all.
type Quota struct {
	cfg   QuotaConfig
	reads singleflight.Group

	mu            sync.RWMutex
	organizations map[string]*organizationQuota
	named, rest   *fair.Shares // bytes by organization: of services and names; of details and instances
}

type organizationQuota struct {
	key      delta.HashKey
	services map[assay.ServiceKey]*serviceQuota
	warned   bool

	servicesRead, namesRead reading
	free, admitted          int // services: free at the last reading, and admitted since

	names, details int   // of all services; see count
	keys           int64 // bytes of all services, without names and details
}

// reading is the time and duration of reading from the store.
type reading struct {
	began time.Time
	took  time.Duration
}

type serviceQuota struct {
	pending bool // not known to be committed
	users   int  // requests or parts in progress, admitted while pending
	names   map[uint64]struct{}
	open    map[uint64]struct{} // pending ones of names
	details map[uint64]struct{}

	instances map[uint64]uint32 // their hours
	inHour    map[uint32]int    // number of instances by hour
}

// NewQuota returns a Quota for a store.
func NewQuota(cfg QuotaConfig) *Quota {
	if cfg.MaxServices <= 0 {
		cfg.MaxServices = assay.DefaultMaxServices
	}
	if cfg.MaxMetricNames <= 0 {
		cfg.MaxMetricNames = assay.DefaultMaxMetricNames
	}
	if cfg.MaxMemory <= 0 {
		cfg.MaxMemory = defaultMemory
	}
	if cfg.Replicas == nil {
		cfg.Replicas = func() int { return 1 }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Quota{
		cfg: cfg, organizations: make(map[string]*organizationQuota),
		named: fair.NewShares(cfg.MaxMemory), rest: fair.NewShares(cfg.MaxMemory),
	}
}

// Load reads an organization from the store, once. After the start many requests may wait for the same reading.
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
		return nil, q.read(context.WithoutCancel(ctx), organizationID) // other requests wait for it, too
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

// HashKey returns the key of the stable hashes of a loaded organization.
func (q *Quota) HashKey(organizationID string) delta.HashKey {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.organizations[organizationID].key
}

// Refresh reads all organizations again, so that expired services make room. An error with one organization does not
// affect the others; Refresh returns all errors.
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

// read updates everything about an organization except pending admissions. It resets details, and instances of hours
// before the previous one, because few more arrive for these hours.
func (q *Quota) read(ctx context.Context, organizationID string) error {
	ctx, cancel := context.WithTimeout(assay.WithOrganization(ctx, organizationID), loadTimeout)
	defer cancel()
	var key delta.HashKey
	if !q.loaded(organizationID) {
		var err error
		if key, err = q.cfg.Store.HashKey(ctx, organizationID); err != nil {
			return fmt.Errorf("read hash key of organization %s: %w", organizationID, err)
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
	for _, k := range q.update(organizationID, key, keys, readKeys, names, readNames) {
		q.reset(organizationID, k)
	}
	return nil
}

// update sets the services and names of an organization. It returns the services.
func (q *Quota) update(organizationID string, key delta.HashKey, keys []assay.ServiceKey, readKeys reading, names nameSets, readNames reading) []assay.ServiceKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.organizations[organizationID]
	if o == nil {
		o = &organizationQuota{key: key}
		q.organizations[organizationID] = o
	}
	o.setServices(keys, readKeys, q.cfg.MaxServices)
	o.setNames(names, readNames)
	q.count(organizationID, o)
	return slices.Collect(maps.Keys(o.services))
}

// reset resets the details and the old instances of one service, because all organizations wait for the lock: there
// may be millions of instances.
func (q *Quota) reset(organizationID string, k assay.ServiceKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.organizations[organizationID]
	s := o.services[k]
	if s == nil {
		return
	}
	o.add(s, -1)
	s.details = nil
	previous := uint32(max(0, q.cfg.Now().Unix()/3600-1))
	instances := s.instances
	s.instances, s.inHour = nil, nil // maps do not shrink
	for instance, hour := range instances {
		if hour >= previous {
			s.addInstance(instance, hour)
		}
	}
	o.add(s, 1)
	q.charge(organizationID, o)
}

func (q *Quota) readServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, reading, error) {
	began := q.cfg.Now()
	keys, err := q.cfg.Store.KnownServices(ctx, organizationID)
	if err != nil {
		err = fmt.Errorf("read services of organization %s: %w", organizationID, err)
	}
	return keys, reading{began, q.cfg.Now().Sub(began)}, err
}

// nameSets holds the hashes of metric names by service.
type nameSets map[assay.ServiceKey]map[uint64]struct{}

// readNames builds the sets without the lock, for which all organizations would wait: there
// may be millions of names.
func (q *Quota) readNames(ctx context.Context, organizationID string) (nameSets, reading, error) {
	began := q.cfg.Now()
	names, err := q.cfg.Store.KnownMetricNames(ctx, organizationID)
	if err != nil {
		err = fmt.Errorf("read metric names of organization %s: %w", organizationID, err)
	}
	sets := make(nameSets, len(names))
	for k, hashes := range names {
		set := make(map[uint64]struct{}, len(hashes))
		for _, h := range hashes {
			set[h] = struct{}{}
		}
		sets[k] = set
	}
	return sets, reading{began, q.cfg.Now().Sub(began)}, err
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

func (o *organizationQuota) setNames(names nameSets, r reading) {
	for k, s := range o.services {
		s.names = names[k]
		maps.DeleteFunc(s.open, func(n uint64, _ struct{}) bool { _, committed := s.names[n]; return committed })
		if s.names == nil && len(s.open) > 0 {
			s.names = make(map[uint64]struct{}, len(s.open))
		}
		maps.Copy(s.names, s.open)
	}
	o.namesRead = r
}

// count adds up the counts of the services.
func (q *Quota) count(organizationID string, o *organizationQuota) {
	o.names, o.details, o.keys = 0, 0, 0
	for k, s := range o.services {
		o.add(s, 1)
		o.keys += sizeOf(k)
	}
	q.charge(organizationID, o)
}

// add adds the counts of a service if n is 1, and subtracts them if n is -1.
func (o *organizationQuota) add(s *serviceQuota, n int) {
	o.names += n * len(s.names)
	o.details += n * (len(s.details) + len(s.instances) + len(s.inHour))
}

// charge updates the memory of an organization.
func (q *Quota) charge(organizationID string, o *organizationQuota) {
	q.named.Add(organizationID, o.keys+hashBytes*int64(o.names)-q.named.Held(organizationID))
	q.rest.Add(organizationID, hashBytes*int64(o.details)-q.rest.Held(organizationID))
}

// fits reports whether an organization may use more bytes of memory.
func fits(memory *fair.Shares, organizationID string, bytes int64) bool {
	loser, full := memory.GivesWay(organizationID, bytes)
	return !full || loser != organizationID
}

// sizeOf returns the bytes charged for a service.
func sizeOf(k assay.ServiceKey) int64 {
	return serviceBytes + int64(len(k.Namespace)+len(k.Name)+len(k.Environment)+len(k.Version))
}

// rereadServices reads the services of an organization again, once for all callers. If that fails, the previous
// reading is used for a while.
func (q *Quota) rereadServices(organizationID string) {
	q.reread("services of "+organizationID, func(ctx context.Context) error {
		keys, r, err := q.readServices(ctx, organizationID)
		q.mu.Lock()
		defer q.mu.Unlock()
		o := q.organizations[organizationID]
		if err != nil {
			o.servicesRead, o.admitted = r, 0
			return err
		}
		o.setServices(keys, r, q.cfg.MaxServices)
		q.count(organizationID, o)
		return nil
	})
}

// rereadNames reads the metric names of an organization again, like rereadServices.
func (q *Quota) rereadNames(organizationID string) {
	q.reread("names of "+organizationID, func(ctx context.Context) error {
		names, r, err := q.readNames(ctx, organizationID)
		q.mu.Lock()
		defer q.mu.Unlock()
		o := q.organizations[organizationID]
		if err != nil {
			o.namesRead = r
			return err
		}
		o.setNames(names, r)
		q.count(organizationID, o)
		return nil
	})
}

func (q *Quota) reread(key string, read func(context.Context) error) {
	_, _, _ = q.reads.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		if err := read(ctx); err != nil {
			q.cfg.Logger.Warn("failed to read the admissions of other replicas", "error", err)
		}
		return nil, nil
	})
}

// mayExceed reports whether, at a known count, the admissions of other replicas matter.
func (q *Quota) mayExceed(count, limit int) bool {
	n := q.cfg.Replicas()
	return n > 1 && count >= limit/(optimisticFraction*n)
}

// stale reports whether a reading is stale.
func (q *Quota) stale(r reading, share int) bool {
	age := q.cfg.Now().Sub(r.began)
	return age < 0 || age >= max(maxReadingAge, time.Duration(share)*r.took)
}

// mustReadServices reports whether the services must be read before another one is admitted.
func (q *Quota) mustReadServices(o *organizationQuota) bool {
	if !q.mayExceed(len(o.services), q.cfg.MaxServices) {
		return false
	}
	return q.stale(o.servicesRead, 1) ||
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
		q.rereadServices(organizationID)
		ok, isNew, _ = q.admitService(organizationID, k, true)
	}
	return ok, isNew
}

// admitService decides by the current state. If the state is too old, it decides only if asked is set, after a new
// reading.
func (q *Quota) admitService(organizationID string, k assay.ServiceKey, asked bool) (ok, isNew, sure bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.organizations[organizationID]
	switch {
	case o == nil:
		return false, false, true
	case o.services[k] != nil:
		s := o.services[k]
		if s.pending { // released when all users release it
			s.users++
		}
		return true, s.pending, true
	case !asked && q.mustReadServices(o):
		return false, false, false
	case len(o.services) >= q.cfg.MaxServices || !fits(q.named, organizationID, sizeOf(k)):
		if !o.warned {
			o.warned = true
			q.cfg.Logger.Warn("organization reached its limit of services or its share of the quota memory; telemetry of further services counts for the overflow service",
				"organization", organizationID, "limit", q.cfg.MaxServices)
		}
		return false, false, true
	}
	o.services[k] = &serviceQuota{pending: true, users: 1}
	o.admitted++
	o.keys += sizeOf(k)
	q.charge(organizationID, o)
	return true, true, true
}

// AdmitMetricName implements rules.Quota.
func (q *Quota) AdmitMetricName(organizationID string, k assay.ServiceKey, name uint64) (ok, isNew bool) {
	q.mu.RLock()
	s := q.service(organizationID, k)
	known, mustReadServices := true, false
	if s != nil { // nil: admitted recently, and not yet committed when Refresh read the store
		o := q.organizations[organizationID]
		_, known = s.names[name]
		mustReadServices = !known && (q.mayExceed(len(s.names), q.cfg.MaxMetricNames) || q.mayExceed(o.names, q.maxNames())) && q.stale(o.namesRead, readShare)
	}
	q.mu.RUnlock()
	if known {
		return true, false
	}
	if mustReadServices {
		q.rereadNames(organizationID)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if s = q.service(organizationID, k); s == nil {
		return true, false
	}
	o := q.organizations[organizationID]
	ok, isNew = q.admit(organizationID, q.named, &s.names, name, q.cfg.MaxMetricNames, &o.names)
	if isNew {
		if s.open == nil {
			s.open = make(map[uint64]struct{})
		}
		s.open[name] = struct{}{}
	}
	return ok, isNew
}

// AdmitMetricDetail implements rules.Quota.
func (q *Quota) AdmitMetricDetail(organizationID string, k assay.ServiceKey, detail uint64) (ok, isNew bool) {
	limit := detailsPerName * q.cfg.MaxMetricNames
	q.mu.RLock()
	s := q.service(organizationID, k)
	known, full := true, false
	if s != nil {
		_, known = s.details[detail]
		full = len(s.details) >= limit
	}
	q.mu.RUnlock()
	if known || full {
		return known, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if s = q.service(organizationID, k); s == nil {
		return true, false
	}
	return q.admit(organizationID, q.rest, &s.details, detail, limit, &q.organizations[organizationID].details)
}

// AdmitInstance implements rules.Quota.
func (q *Quota) AdmitInstance(organizationID string, k assay.ServiceKey, hour, instance uint64) (ok, isNew bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.service(organizationID, k)
	if s == nil {
		return true, false
	}
	if _, known := s.instances[instance]; known {
		return true, false
	}
	o, h := q.organizations[organizationID], uint32(hour)
	if s.inHour[h] >= instancesPerHour || o.details+2 > q.maxNames() || !fits(q.rest, organizationID, 2*hashBytes) {
		return false, false
	}
	o.add(s, -1)
	s.addInstance(instance, h)
	o.add(s, 1)
	q.charge(organizationID, o)
	return true, true
}

func (s *serviceQuota) addInstance(instance uint64, hour uint32) {
	if s.instances == nil {
		s.instances, s.inHour = make(map[uint64]uint32), make(map[uint32]int)
	}
	s.instances[instance] = hour
	s.inHour[hour]++
}

func (s *serviceQuota) removeInstance(instance uint64) {
	hour, ok := s.instances[instance]
	if !ok {
		return
	}
	delete(s.instances, instance)
	if s.inHour[hour]--; s.inHour[hour] == 0 {
		delete(s.inHour, hour)
	}
}

// maxNames returns the maximum number of metric names of an organization, and of its details, instances and their hours.
func (q *Quota) maxNames() int { return namesPerOrganization * q.cfg.MaxMetricNames }

// admit adds to a set up to a limit, and up to the limit of the sets of all services together.
func (q *Quota) admit(organizationID string, memory *fair.Shares, set *map[uint64]struct{}, hash uint64, limit int, all *int) (ok, isNew bool) {
	if _, known := (*set)[hash]; known {
		return true, false
	}
	if len(*set) >= limit || *all >= q.maxNames() || !fits(memory, organizationID, hashBytes) {
		return false, false
	}
	*all++
	q.charge(organizationID, q.organizations[organizationID])
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

// Release releases the admissions of a request that was not committed.
func (q *Quota) Release(organizationID string, admitted []rules.Admission) {
	q.settle(organizationID, admitted, func(o *organizationQuota, s *serviceQuota, a rules.Admission) {
		o.add(s, -1)
		defer o.add(s, 1)
		switch {
		case a.MetricName != 0:
			if _, open := s.open[a.MetricName]; open {
				delete(s.names, a.MetricName)
				delete(s.open, a.MetricName)
			}
		case a.Detail != 0:
			delete(s.details, a.Detail)
		case a.Instance != 0:
			s.removeInstance(a.Instance)
		case s.pending:
			if s.users--; s.users <= 0 {
				delete(o.services, a.Service)
				o.keys -= sizeOf(a.Service)
				*s = serviceQuota{} // counts for nothing
			}
		}
	})
}

// Keep records that the admissions of a request are committed. From now on the store is authoritative for them.
func (q *Quota) Keep(organizationID string, admitted []rules.Admission) {
	q.settle(organizationID, admitted, func(_ *organizationQuota, s *serviceQuota, a rules.Admission) {
		switch {
		case a.MetricName != 0:
			delete(s.open, a.MetricName)
		case a.Detail == 0 && a.Instance == 0:
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
	q.charge(organizationID, o)
}

var _ rules.Quota = (*Quota)(nil)
