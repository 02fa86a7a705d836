// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"fmt"
	"slices"

	"assay"
	"assay/internal/review"
)

// Limits of settings.
const (
	maxInstructions = 8 << 10 // bytes
	maxSettings     = 100     // items of a list
	maxSetting      = 256     // bytes of an item
)

// settingsData are a repository's settings.
type settingsData struct {
	RepositoryID string `json:"repository_id"`
	assay.RepositorySettings
}

func showSettings(r *assay.Repository, s assay.RepositorySettings) settingsData {
	for _, list := range []*[]string{&s.Ignore, &s.DisabledChecks, &s.Services} {
		if *list == nil {
			*list = []string{}
		}
	}
	return settingsData{r.ID, s}
}

func getSettings(ctx context.Context, c *call) (any, error) {
	r, err := c.repository(ctx, c.ids[0])
	if err != nil {
		return nil, err
	}
	return showSettings(r, r.Settings), nil
}

// putSettings replaces the settings. Absent fields are empty afterwards.
func putSettings(ctx context.Context, c *call) (any, error) {
	var id *string
	var s assay.RepositorySettings
	if err := c.decode(ctx, fields{
		"repository_id": &id, "review_instructions": &s.ReviewInstructions, "fix_instructions": &s.FixInstructions,
		"ignore": &s.Ignore, "disabled_checks": &s.DisabledChecks, "services": &s.Services, "test_command": &s.TestCommand,
	}); err != nil {
		return nil, err
	}
	r, err := c.repository(ctx, c.ids[0])
	if err != nil {
		return nil, err
	}
	details := map[string]string{}
	for name, text := range map[string]string{"review_instructions": s.ReviewInstructions, "fix_instructions": s.FixInstructions, "test_command": s.TestCommand} {
		if len(text) > maxInstructions {
			details[name] = fmt.Sprintf("must have at most %d bytes", maxInstructions)
		}
	}
	list := func(name string, values []string, known func(string) bool, what string) {
		unknown := func(v string) bool { return !known(v) }
		switch {
		case len(values) > maxSettings:
			details[name] = fmt.Sprintf("must have at most %d items", maxSettings)
		case slices.ContainsFunc(values, func(v string) bool { return v == "" || len(v) > maxSetting }):
			details[name] = fmt.Sprintf("must have items of 1 to %d bytes", maxSetting)
		case slices.ContainsFunc(values, unknown):
			details[name] = fmt.Sprintf("has %q, which is not %s", values[slices.IndexFunc(values, unknown)], what)
		}
	}
	list("disabled_checks", s.DisabledChecks, review.IsCheck, "a check")
	list("ignore", s.Ignore, review.IsPattern, "a pattern of .gitignore")
	list("services", s.Services, func(string) bool { return true }, "")
	if id != nil && *id != r.ID {
		details["repository_id"] = "must be the id in the path"
	}
	if err := unprocessable(details); err != nil {
		return nil, err
	}
	if err := c.cfg.Store.SaveRepositorySettings(ctx, c.organization, r.ID, s); err != nil {
		return nil, err
	}
	return showSettings(r, s), nil
}
