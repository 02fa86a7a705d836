// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"assay"
	"assay/internal/rules"
)

// detailsPerName is how many details (units, lists of bounds, attribute keys) of
// its metrics a service may have, for each metric name that it may have.
const detailsPerName = 10

// Quota limits the services of an organization and the metric names of a service.
// It knows what the store keeps and what requests under way have added. It may be
// used concurrently.
type Quota struct {
	store          Store
	maxServices    int
	maxMetricNames int
	logger         *slog.Logger

	mu            sync.RWMutex
	organizations map[string]*organizationQuota
}

type organizationQuota struct {
	services map[assay.ServiceKey]*serviceQuota
	warned   bool
}

type serviceQuota struct {
	names   map[uint64]struct{}
	details map[uint64]struct{}
}

// NewQuota returns a Quota over a store; 0 means a default limit.
func NewQuota(store Store, maxServices, maxMetricNames int, logger *slog.Logger) *Quota {
	if maxServices <= 0 {
		maxServices = assay.DefaultMaxServices
	}
	if maxMetricNames <= 0 {
		maxMetricNames = assay.DefaultMaxMetricNames
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Quota{
		store: store, maxServices: maxServices, maxMetricNames: maxMetricNames, logger: logger,
		organizations: make(map[string]*organizationQuota),
	}
}

// Load reads what the store keeps of an organization, once.
func (q *Quota) Load(ctx context.Context, organizationID string) error {
	q.mu.RLock()
	loaded := q.organizations[organizationID] != nil
	q.mu.RUnlock()
	if loaded {
		return nil
	}
	o, err := q.read(ctx, organizationID)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.organizations[organizationID] == nil {
		q.organizations[organizationID] = o
	}
	return nil
}

// Refresh reads all organizations anew, so that what expired makes room.
func (q *Quota) Refresh(ctx context.Context) error {
	q.mu.RLock()
	var ids []string
	for id := range q.organizations {
		ids = append(ids, id)
	}
	q.mu.RUnlock()
	for _, id := range ids {
		o, err := q.read(ctx, id)
		if err != nil {
			return err
		}
		q.mu.Lock()
		q.organizations[id] = o
		q.mu.Unlock()
	}
	return nil
}

func (q *Quota) read(ctx context.Context, organizationID string) (*organizationQuota, error) {
	keys, err := q.store.KnownServices(ctx, organizationID)
	if err != nil {
		return nil, fmt.Errorf("read the services of organization %s: %w", organizationID, err)
	}
	names, err := q.store.KnownMetricNames(ctx, organizationID)
	if err != nil {
		return nil, fmt.Errorf("read the metric names of organization %s: %w", organizationID, err)
	}
	o := &organizationQuota{services: make(map[assay.ServiceKey]*serviceQuota, len(keys))}
	for _, k := range keys {
		if k.Overflow() {
			continue
		}
		s := &serviceQuota{}
		for _, n := range names[k] {
			s.name(n)
		}
		o.services[k] = s
	}
	return o, nil
}

func (s *serviceQuota) name(n uint64) {
	if s.names == nil {
		s.names = make(map[uint64]struct{})
	}
	s.names[n] = struct{}{}
}

// AdmitService implements rules.Quota.
func (q *Quota) AdmitService(organizationID string, k assay.ServiceKey) (ok, isNew bool) {
	q.mu.RLock()
	o := q.organizations[organizationID]
	if o != nil && o.services[k] != nil {
		q.mu.RUnlock()
		return true, false
	}
	q.mu.RUnlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	o = q.organizations[organizationID]
	switch {
	case o == nil:
		return false, false
	case o.services[k] != nil:
		return true, false
	case len(o.services) >= q.maxServices:
		if !o.warned {
			o.warned = true
			q.logger.Warn("an organization is at its limit of services; telemetry of further ones counts for the overflow service",
				"organization", organizationID, "limit", q.maxServices)
		}
		return false, false
	}
	o.services[k] = &serviceQuota{}
	return true, true
}

// AdmitMetricName implements rules.Quota.
func (q *Quota) AdmitMetricName(organizationID string, k assay.ServiceKey, name uint64) (ok, isNew bool) {
	return q.admit(organizationID, k, name, q.maxMetricNames, func(s *serviceQuota) *map[uint64]struct{} { return &s.names })
}

// AdmitMetricDetail implements rules.Quota.
func (q *Quota) AdmitMetricDetail(organizationID string, k assay.ServiceKey, detail uint64) (ok, isNew bool) {
	return q.admit(organizationID, k, detail, detailsPerName*q.maxMetricNames, func(s *serviceQuota) *map[uint64]struct{} { return &s.details })
}

func (q *Quota) admit(organizationID string, k assay.ServiceKey, hash uint64, limit int, set func(*serviceQuota) *map[uint64]struct{}) (ok, isNew bool) {
	q.mu.RLock()
	s := q.service(organizationID, k)
	if s == nil { // admitted a moment ago, and not committed when Refresh read the store
		q.mu.RUnlock()
		return true, false
	}
	_, known := (*set(s))[hash]
	q.mu.RUnlock()
	if known {
		return true, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if s = q.service(organizationID, k); s == nil {
		return true, false
	}
	m := set(s)
	if _, known := (*m)[hash]; known {
		return true, false
	}
	if len(*m) >= limit {
		return false, false
	}
	if *m == nil {
		*m = make(map[uint64]struct{})
	}
	(*m)[hash] = struct{}{}
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
		switch s := o.services[a.Service]; {
		case s == nil:
		case a.MetricName != 0:
			delete(s.names, a.MetricName)
		case a.Detail != 0:
			delete(s.details, a.Detail)
		default:
			delete(o.services, a.Service)
		}
	}
}

var _ rules.Quota = (*Quota)(nil)
