// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"assay"
	"assay/internal/codebase/source"
)

// Lifetime of an onboarding session, and window of the session limit.
const (
	sessionLife   = 10 * time.Minute
	sessionWindow = time.Minute
)

// maxSessionOwners limits the organizations whose sessions are counted.
const maxSessionOwners = 10_000

// sessionLimit counts the onboarding sessions of the last minute by organization, in this process.
type sessionLimit struct {
	mu     sync.Mutex
	recent map[string][]time.Time // oldest first
}

// take counts a session, or returns how long to wait.
func (l *sessionLimit) take(organization string, most int, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := func(at time.Time) bool { return now.Sub(at) >= sessionWindow || at.After(now) }
	if l.recent == nil || len(l.recent) >= maxSessionOwners {
		kept := map[string][]time.Time{}
		for id, times := range l.recent {
			if !old(times[len(times)-1]) {
				kept[id] = times
			}
		}
		l.recent = kept
	}
	times := slices.DeleteFunc(l.recent[organization], old)
	if len(times) >= most || len(times) == 0 && len(l.recent) >= maxSessionOwners {
		wait := sessionWindow
		if len(times) > 0 {
			l.recent[organization] = times
			wait -= now.Sub(times[0])
		}
		return wait
	}
	l.recent[organization] = append(times, now)
	return 0
}

// The resources.
type (
	sessionData struct {
		ID        string     `json:"session_id"`
		URL       string     `json:"installation_url"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	onboardingData struct {
		State         string           `json:"state"`
		Installations int              `json:"installation_count"`
		Kinds         []string         `json:"kinds"` // an addition: kinds of sources that can be connected
		Repositories  repositoryCounts `json:"repositories"`
	}
	repositoryCounts struct {
		Total  int `json:"total"`
		Active int `json:"active"`
		Limit  int `json:"limit"`
	}
)

// createSession creates a session. It is also allowed after onboarding was completed, to connect more. Without a kind,
// it is for the first configured host with an API.
func createSession(ctx context.Context, c *call) (any, error) {
	var kind *string
	var write bool
	if err := c.decode(ctx, fields{"kind": &kind, "write": &write}); err != nil {
		return nil, err
	}
	forges, selected := c.cfg.Sources.Forges(), source.KindGit
	if len(forges) > 0 {
		selected = forges[0]
	}
	if kind != nil {
		if selected = *kind; !slices.Contains(c.kinds(), selected) {
			return nil, unprocessable(map[string]string{"kind": "must be one of " + strings.Join(c.kinds(), ", ")})
		}
	}
	if wait := c.sessions.take(c.organization, c.cfg.SessionsPerMinute, c.cfg.Now()); wait > 0 {
		retryAfter(c.header, wait)
		return nil, assay.Errorf(assay.CodeRateLimited, "too many onboarding sessions")
	}
	if err := c.cfg.Store.StartOnboarding(ctx, c.organization); err != nil {
		return nil, err
	}
	id, expires := uuid.NewString(), c.now().Add(sessionLife)
	d := sessionData{ID: id, URL: c.cfg.ConnectURL + "?session=" + url.QueryEscape(id), ExpiresAt: moment(expires)}
	if !slices.Contains(forges, selected) {
		return d, nil
	}
	state := &assay.OnboardingState{
		OrganizationID: c.organization, Provider: selected, Verifier: oauth2.GenerateVerifier(), CreatedBy: c.subject, ExpiresAt: expires,
		Write: write,
	}
	text := id + "." + rand.Text()
	state.Hash = stateHash(text)
	var err error
	if d.URL, err = c.cfg.Sources.AuthorizeURL(selected, text, state.Verifier, c.callbackURL(selected), state.Write); err != nil {
		return nil, err
	}
	return d, c.cfg.Store.SaveOnboardingState(ctx, state)
}

func getOnboarding(ctx context.Context, c *call) (any, error) {
	state, err := c.cfg.Store.Onboarding(ctx, c.organization)
	if err != nil {
		return nil, err
	}
	all, err := c.inventory(ctx, false)
	if err != nil {
		return nil, err
	}
	d := onboardingData{State: state, Installations: len(all), Kinds: c.kinds(), Repositories: repositoryCounts{Limit: c.cfg.RepositoryLimit}}
	for _, i := range all {
		d.Repositories.Total += len(i.Repos)
		d.Repositories.Active += i.ActiveRepoCount
	}
	return d, nil
}

// completeOnboarding activates the selected repositories, all or none, and completes onboarding. It requires no
// session. An invalid body is a 400.
func completeOnboarding(ctx context.Context, c *call) (any, error) {
	var ids []string
	if err := c.decode(ctx, fields{"repository_ids": &ids}); err != nil {
		return nil, asInvalid(err)
	}
	if len(ids) == 0 || len(ids) > assay.MaxRepositories {
		return nil, assay.Invalid(map[string]string{"repository_ids": "must have 1 to " + number(assay.MaxRepositories) + " ids"})
	}
	var selected []string
	for _, id := range ids {
		id, ok := canonicalID(id)
		if !ok {
			return nil, errSelection()
		}
		selected = append(selected, id)
	}
	slices.Sort(selected)
	_, err := c.cfg.Store.CompleteOnboarding(ctx, c.organization, slices.Compact(selected), c.cfg.RepositoryLimit)
	switch assay.ErrorCode(err) {
	case "":
		return getOnboarding(ctx, c)
	case assay.CodeNotFound:
		return nil, errSelection()
	case assay.CodeConflict:
		state, failure := c.cfg.Store.Onboarding(ctx, c.organization)
		if failure == nil && state == "completed" {
			return nil, assay.Errorf(assay.CodeConflict, "onboarding is completed already")
		}
		return nil, c.overLimit(err)
	}
	return nil, err
}

func errSelection() error {
	return assay.Invalid(map[string]string{"repository_ids": "has an id that is none of a repository"})
}
