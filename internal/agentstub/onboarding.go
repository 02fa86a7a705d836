// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// How long an onboarding session can be used, and over how long sessions are counted.
const (
	sessionLife   = 10 * time.Minute
	sessionWindow = time.Minute
)

// The states of onboarding.
const (
	onboardingNotStarted = "not_started"
	onboardingInProgress = "in_progress" // there is a session that has not expired
	onboardingCompleted  = "completed"
)

type onboarding struct {
	sessions  int         // that were ever made
	recent    []time.Time // of sessions within the window, oldest first
	current   string      // id of the last session, "" for none
	expires   time.Time   // of the last session
	completed time.Time   // zero: it is not
}

func (b *onboarding) state(now time.Time) string {
	switch {
	case !b.completed.IsZero():
		return onboardingCompleted
	case b.current != "" && now.Before(b.expires):
		return onboardingInProgress
	}
	return onboardingNotStarted
}

// The resources.
type (
	sessionData struct {
		label
		ID              string    `json:"id"`
		InstallationURL string    `json:"installation_url"`
		ExpiresAt       time.Time `json:"expires_at"`
	}
	onboardingData struct {
		label
		State            string         `json:"state"`
		InstallationURL  *string        `json:"installation_url"` // of the session, while there is one
		SessionExpiresAt *time.Time     `json:"session_expires_at"`
		CompletedAt      *time.Time     `json:"completed_at"`
		Installations    int            `json:"installation_count"`
		Repositories     repositoryTell `json:"repositories"`
	}
	repositoryTell struct {
		Total  int `json:"total"`
		Active int `json:"active"`
		Limit  int `json:"limit"`
	}
)

func (o *organization) onboardingData() onboardingData {
	b := &o.onboarding
	d := onboardingData{
		State: b.state(o.now), Installations: len(o.installations),
		Repositories: repositoryTell{Total: len(o.repositories), Active: o.active(), Limit: o.limit},
	}
	if b.current != "" && o.now.Before(b.expires) {
		at, expires := installationURL(b.current), b.expires
		d.InstallationURL, d.SessionExpiresAt = &at, &expires
	}
	if !b.completed.IsZero() {
		completed := b.completed
		d.CompletedAt = &completed
	}
	return d
}

func installationURL(session string) string {
	return host + "apps/assay-stand-in/installations/new?state=" + url.QueryEscape(session)
}

// createSession makes a session, after onboarding was completed as well: to install
// the app for another account.
func createSession(c *call) (response, error) {
	if err := decode(c.body, fields{}); err != nil {
		return response{}, err
	}
	o, b := c.organization, &c.organization.onboarding
	b.recent = slices.DeleteFunc(b.recent, func(at time.Time) bool { return o.now.Sub(at) >= sessionWindow })
	if len(b.recent) >= c.cfg.SessionsPerMinute {
		err := refuse(http.StatusTooManyRequests, "too many onboarding sessions")
		err.retryAfter = b.recent[0].Add(sessionWindow).Sub(o.now)
		return response{}, err
	}
	b.recent = append(b.recent, o.now)
	b.sessions++
	b.current, b.expires = o.newID("session", number(b.sessions)), o.now.Add(sessionLife)
	return response{data: sessionData{ID: b.current, InstallationURL: installationURL(b.current), ExpiresAt: b.expires}}, nil
}

func getOnboarding(c *call) (response, error) {
	return response{data: c.organization.onboardingData()}, nil
}

// completeOnboarding activates the selected repositories, all or none, and completes
// onboarding, with or without a session. What is wrong with the body is a 400.
func completeOnboarding(c *call) (response, error) {
	var ids *[]string
	if err := decode(c.body, fields{"repository_ids": &ids}); err != nil {
		return response{}, asInvalid(err)
	}
	if ids == nil || len(*ids) == 0 {
		return response{}, invalid(map[string]string{"repository_ids": "at least one repository is required"})
	}
	o := c.organization
	var selected []*repository
	for _, id := range *ids {
		r := o.repositories[id]
		if r == nil {
			return response{}, invalid(map[string]string{"repository_ids": "holds an id that is not one of a repository"})
		}
		if !slices.Contains(selected, r) {
			selected = append(selected, r)
		}
	}
	if !o.onboarding.completed.IsZero() {
		return response{}, refuse(http.StatusConflict, "onboarding is completed already")
	}
	if err := o.activate(selected...); err != nil {
		return response{}, err
	}
	o.onboarding.completed = o.now
	return response{data: o.onboardingData()}, nil
}
