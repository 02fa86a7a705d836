// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	askTimeout = 30 * time.Second // whatever is asked for is answered before
	maxPage    = 100
)

// State is what clients of the REST API see of an organization and what has to be
// the same with faults and without.
type State struct {
	Score    int                     // of the organization
	Services map[string]ServiceState // by name
	Usage    map[string]Usage        // by name of the service
	Logs     map[string]uint64       // log volume by severity; nil where nobody keeps it
}

// ServiceState is what is seen of a service.
type ServiceState struct {
	Score     int
	Category  string
	Evaluated []string // ids of rules, sorted
	Active    []string // ids of the rules of active insights, sorted
	Archived  []string // ids of the rules of archived insights, sorted
}

// Usage is what a service has sent, in the order of traces, metrics, logs.
type Usage struct {
	Records, Bytes [3]uint64
}

// Differences tells what clients see of the organizations that is not what they have
// to see. A log volume that is not kept on one side is left out.
func Differences(want, got map[string]*State) (lines []string) {
	differ := func(what string, want, got any) {
		if !reflect.DeepEqual(want, got) {
			lines = append(lines, fmt.Sprintf("%s: %v instead of %v", what, got, want))
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

// keys returns the keys of two maps in order.
func keys[V any](a, b map[string]V) []string {
	all := make(map[string]V)
	maps.Copy(all, a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// Insight is what shows that an insight was opened once.
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

// reader reads what one process serves.
type reader struct {
	client *http.Client
	url    string // of the API, or of its listener
}

// ask reads a path whatever its status; key may be "".
func (r *reader) ask(ctx context.Context, key, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return resp.StatusCode, body, nil
}

// text reads a path that has to answer 200.
func (r *reader) text(ctx context.Context, key, path string) ([]byte, error) {
	status, body, err := r.ask(ctx, key, path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: %d: %s", path, status, body)
	}
	return body, err
}

// get reads a path of the API into an envelope.
func (r *reader) get(ctx context.Context, key, path string, envelope any) error {
	body, err := r.text(ctx, key, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, envelope); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// list reads all pages of a list.
func list[T any](ctx context.Context, r *reader, key, path string) (all []T, err error) {
	for next := fmt.Sprintf("%s%slimit=%d", path, separator(path), maxPage); next != ""; {
		var page struct {
			Data  []T               `json:"data"`
			Links map[string]string `json:"links"`
		}
		if err := r.get(ctx, key, next, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		next = strings.TrimPrefix(page.Links["next"], "/api")
	}
	return all, nil
}

func separator(path string) string {
	if strings.Contains(path, "?") {
		return "&"
	}
	return "?"
}

// insights reads all insights of an organization, whatever their status.
func (r *reader) insights(ctx context.Context, organization, key string) ([]Insight, error) {
	all, err := list[Insight](ctx, r, key, "/v1/insights?sort=%2Bcreated_at")
	for i := range all {
		all[i].Organization = organization
	}
	return all, err
}

// state reads what is seen of an organization; logs says whether log volume is kept.
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
			return nil, fmt.Errorf("two services %q of %s", x.Name, organization)
		}
		service := ServiceState{Score: -1} // none yet
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
				Severity string
				Count    uint64
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
