// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"assay/internal/assaytest"
)

const maxPage = 100

// State is the state of an organization that clients of the REST API see. It must be the same with and
// without faults.
type State struct {
	Score    int                     // of the organization
	Services map[string]ServiceState // by name
	Usage    map[string]Usage        // by name of the service
	Logs     map[string]uint64       // log volume by severity; nil if the store does not hold it
}

// ServiceState is the state of a service.
type ServiceState struct {
	Score     int
	Category  string
	Evaluated []string // ids of rules, sorted
	Active    []string // ids of the rules of active insights, sorted
	Archived  []string // ids of the rules of archived insights, sorted
}

// Usage holds the totals of a service, in the order traces, metrics, logs.
type Usage struct {
	Records, Bytes [3]uint64
}

// Differences returns the differences between the states of organizations. Log volume that is missing on one
// side is skipped.
func Differences(want, got map[string]*State) (lines []string) {
	differ := func(what string, want, got any) {
		if !reflect.DeepEqual(want, got) {
			lines = append(lines, fmt.Sprintf("%s: got %v, want %v", what, got, want))
		}
	}
	for _, name := range keys(want, got) {
		w, g := want[name], got[name]
		if w == nil || g == nil {
			differ(name, w != nil, g != nil)
			continue
		}
		differ(name+": score", w.Score, g.Score)
		for _, service := range keys(w.Services, g.Services) {
			differ(name+"/"+service, w.Services[service], g.Services[service])
		}
		for _, service := range keys(w.Usage, g.Usage) {
			differ(name+"/"+service+": usage", w.Usage[service], g.Usage[service])
		}
		if w.Logs != nil && g.Logs != nil {
			differ(name+": log volume", w.Logs, g.Logs)
		}
	}
	return lines
}

// keys returns the keys of two maps, sorted.
func keys[V any](a, b map[string]V) []string {
	all := make(map[string]V)
	maps.Copy(all, a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// Insight has the fields that show whether an insight was opened more than once.
type Insight struct {
	Organization string
	ID           string    `json:"id"`
	ServiceName  string    `json:"service_name"`
	Status       string    `json:"status"`
	CreatedAt    time.Time `json:"created_at"`
	DetectedAt   time.Time `json:"detected_ts"`
	Type         struct {
		RuleID string `json:"instrumentation_score_rule_id"`
	} `json:"insight_type"`
}

// reader is a client of the REST API of a server.
type reader struct{ *assaytest.Server }

// get reads a path of the API into envelope.
func (r *reader) get(ctx context.Context, key, path string, envelope any) error {
	return assaytest.GetJSON(ctx, r.Client, r.REST+path, key, envelope)
}

// list reads all pages of a list.
func list[T any](ctx context.Context, r *reader, key, path string) ([]T, error) {
	return assaytest.List[T](ctx, r.Client, r.REST, key, path)
}

// insights reads all insights of an organization, of any status.
func (r *reader) insights(ctx context.Context, organization, key string) ([]Insight, error) {
	all, err := list[Insight](ctx, r, key, "/v1/insights?sort=%2Bcreated_at")
	for i := range all {
		all[i].Organization = organization
	}
	return all, err
}

// state reads the state of an organization; logs selects whether it reads log volume.
func (r *reader) state(ctx context.Context, organization, key string, logs bool) (*State, error) {
	s := &State{Services: make(map[string]ServiceState), Usage: make(map[string]Usage)}
	var o struct {
		Data struct{ Score *struct{ Value int } }
	}
	if err := r.get(ctx, key, "/v1/organization", &o); err != nil {
		return nil, err
	}
	if o.Data.Score != nil {
		s.Score = o.Data.Score.Value
	}
	services, err := list[struct {
		Name  string
		Score *struct {
			Score     int
			Category  string
			Evaluated []string `json:"evaluated_rule_ids"`
		} `json:"instrumentation_score"`
	}](ctx, r, key, "/v1/services")
	if err != nil {
		return nil, err
	}
	for _, x := range services {
		if _, ok := s.Services[x.Name]; ok {
			return nil, fmt.Errorf("duplicate service %q in %s", x.Name, organization)
		}
		service := ServiceState{Score: -1} // no score yet
		if x.Score != nil {
			service.Score, service.Category, service.Evaluated = x.Score.Score, x.Score.Category, slices.Sorted(slices.Values(x.Score.Evaluated))
		}
		s.Services[x.Name] = service
	}
	insights, err := r.insights(ctx, organization, key)
	if err != nil {
		return nil, err
	}
	for _, i := range insights {
		service := s.Services[i.ServiceName]
		switch i.Status {
		case "active":
			service.Active = append(service.Active, i.Type.RuleID)
		default:
			service.Archived = append(service.Archived, i.Type.RuleID)
		}
		s.Services[i.ServiceName] = service
	}
	for _, service := range s.Services {
		slices.Sort(service.Active)
		slices.Sort(service.Archived)
	}
	if err := r.usage(ctx, key, s); err != nil {
		return nil, err
	}
	if !logs {
		return s, nil
	}
	var volume struct {
		Data struct {
			Severities []struct {
				Severity string `json:"severity_text"`
				Count    uint64 `json:"record_count"`
			}
		}
	}
	if err := r.get(ctx, key, "/v1/analytics/log-volume?period=24h", &volume); err != nil {
		return nil, err
	}
	s.Logs = make(map[string]uint64)
	for _, v := range volume.Data.Severities {
		s.Logs[v.Severity] = v.Count
	}
	return s, nil
}

func (r *reader) usage(ctx context.Context, key string, s *State) error {
	var analytics struct {
		Data struct {
			Services []struct {
				Name    string
				Traces  uint64 `json:"traces_count"`
				Metrics uint64 `json:"metrics_count"`
				Logs    uint64 `json:"logs_count"`
				TracesB uint64 `json:"traces_bytes"`
				MetricB uint64 `json:"metrics_bytes"`
				LogsB   uint64 `json:"logs_bytes"`
			}
		}
	}
	if err := r.get(ctx, key, fmt.Sprintf("/v1/analytics/services?limit=%d", maxPage), &analytics); err != nil {
		return err
	}
	for _, x := range analytics.Data.Services {
		s.Usage[x.Name] = Usage{
			Records: [3]uint64{x.Traces, x.Metrics, x.Logs},
			Bytes:   [3]uint64{x.TracesB, x.MetricB, x.LogsB},
		}
	}
	return nil
}
