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
	var id, forReview, forFix, command *string
	var ignore, disabled, services *[]string
	if err := c.decode(ctx, fields{
		"repository_id": &id, "review_instructions": &forReview, "fix_instructions": &forFix,
		"ignore": &ignore, "disabled_checks": &disabled, "services": &services, "test_command": &command,
	}); err != nil {
		return nil, err
	}
	r, err := c.repository(ctx, c.ids[0])
	if err != nil {
		return nil, err
	}
	details := map[string]string{}
	text := func(name string, value *string) string {
		if value == nil {
			return ""
		}
		if len(*value) > maxInstructions {
			details[name] = fmt.Sprintf("must have at most %d bytes", maxInstructions)
		}
		return *value
	}
	list := func(name string, values *[]string) []string {
		if values == nil {
			return nil
		}
		if len(*values) > maxSettings {
			details[name] = fmt.Sprintf("must have at most %d items", maxSettings)
			return nil
		}
		for _, v := range *values {
			if v == "" || len(v) > maxSetting {
				details[name] = fmt.Sprintf("must have items of 1 to %d bytes", maxSetting)
			}
		}
		return *values
	}
	s := assay.RepositorySettings{
		ReviewInstructions: text("review_instructions", forReview), FixInstructions: text("fix_instructions", forFix),
		Ignore: list("ignore", ignore), DisabledChecks: list("disabled_checks", disabled), Services: list("services", services), TestCommand: text("test_command", command),
	}
	unknown := func(name string, values []string, known func(string) bool, problem string) {
		i := slices.IndexFunc(values, func(v string) bool { return !known(v) })
		if i >= 0 && details[name] == "" {
			details[name] = fmt.Sprintf("has %q, which is not %s", values[i], problem)
		}
	}
	unknown("disabled_checks", s.DisabledChecks, review.IsCheck, "a check")
	unknown("ignore", s.Ignore, review.IsPattern, "a pattern of .gitignore")
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
