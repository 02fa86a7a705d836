// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"assay"
	"assay/internal/rules/catalog"
)

type insightCmd struct {
	List   insightListCmd   `cmd:"" help:"List insights."`
	Mute   insightMuteCmd   `cmd:"" help:"Mute an insight. Muting does not change the score."`
	Unmute insightUnmuteCmd `cmd:"" help:"Unmute an insight."`
}

type insightListCmd struct {
	storeConfig
	listFormat
	Organization string   `placeholder:"NAME" help:"Organization whose insights are listed. Default: all."`
	Status       []string `placeholder:"STATUS" help:"Status of the insights to list: active, archived, muted. Default: all."`
}

func (c *insightListCmd) problems() []error {
	ck := &check{problems: c.storeConfig.problems()}
	all := []string{string(assay.InsightActive), string(assay.InsightArchived), string(assay.InsightMuted)}
	for _, s := range c.Status {
		ck.that(slices.Contains(all, s), "--status: %q is not one of active, archived and muted", s)
	}
	return ck.problems
}

// insightRow is the JSON form of an insight in a list.
type insightRow struct {
	ID           string         `json:"id"`
	Organization string         `json:"organization"`
	Service      insightService `json:"service"`
	Name         string         `json:"name"`
	RuleID       string         `json:"rule_id"`
	Impact       assay.Impact   `json:"impact"`
	Status       string         `json:"status"`
	MuteReason   string         `json:"mute_reason"`
	DetectedAt   *time.Time     `json:"detected_ts"`
	UpdatedAt    *time.Time     `json:"updated_at"`
	Attributes   map[string]any `json:"attributes"`
	updated      time.Time
}

type insightService struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Namespace   string `json:"namespace"`
	Environment string `json:"environment"`
	Version     string `json:"version"`
}

// listPage is the number of insights per query.
const listPage = 500

// Run lists insights by impact, highest first.
func (c *insightListCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		names, organizationID, err := organizationNames(ctx, s, c.Organization)
		if err != nil {
			return err
		}
		filter := assay.InsightFilter{OrganizationID: organizationID, Sort: assay.SortImpact, Descending: true}
		for _, status := range c.Status {
			filter.Statuses = append(filter.Statuses, assay.InsightStatus(status))
		}
		var rows []insightRow
		for {
			filter.Page = assay.Page{Limit: listPage, Offset: len(rows)}
			found, total, err := s.FindInsights(ctx, filter)
			if err != nil {
				return err
			}
			for _, i := range found {
				rows = append(rows, showInsight(i, names))
			}
			if len(found) == 0 || len(rows) >= total {
				break
			}
		}
		header := []string{"ID", "IMPACT", "RULE", "TYPE", "SERVICE", "STATUS", "UPDATED", "ORGANIZATION"}
		return writeList(e, c.Format, rows, header, func(r insightRow) []string {
			return []string{r.ID, string(r.Impact), orDash(r.RuleID), r.Name, r.Service.Name, r.Status, tableTime(r.updated), r.Organization}
		})
	})
}

func showInsight(i *assay.Insight, organizations map[string]string) insightRow {
	row := insightRow{
		ID: i.ID, Organization: organizations[i.OrganizationID], Name: i.Type, Status: string(i.Status), MuteReason: i.MuteReason,
		Service: insightService{
			ID: i.Service.ID, Name: i.Service.Name, Namespace: i.Service.Namespace,
			Environment: i.Service.Environment, Version: i.Service.Version,
		},
		DetectedAt: jsonTime(i.DetectedAt), UpdatedAt: jsonTime(i.UpdatedAt), Attributes: i.Attributes, updated: i.UpdatedAt,
	}
	if r, ok := catalog.ByInsightType(i.Type); ok {
		row.RuleID, row.Impact = r.ID(), r.Info().Impact
	}
	return row
}

type insightMuteCmd struct {
	storeConfig
	ID     string  `arg:"" help:"Id of the insight."`
	Reason *string `placeholder:"TEXT" help:"Reason for muting, shown with the insight. Default: none, or that of a muted insight."`
}

func (c *insightMuteCmd) problems() []error {
	ck := &check{problems: c.storeConfig.problems()}
	ck.that(c.Reason == nil || len(*c.Reason) <= 1000, "--reason: more than 1000 bytes")
	return ck.problems
}

// Run mutes an insight.
func (c *insightMuteCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		reason := c.Reason
		if reason == nil {
			i, err := s.FindInsightByID(ctx, "", c.ID)
			if err != nil {
				return insightError(c.ID, err)
			}
			reason = &i.MuteReason // "" unless it is muted
		}
		if err := s.MuteInsight(ctx, c.ID, *reason); err != nil {
			return insightError(c.ID, err)
		}
		e.say("the insight %s is muted", c.ID)
		return nil
	})
}

type insightUnmuteCmd struct {
	storeConfig
	ID string `arg:"" help:"Id of the insight."`
}

// Run unmutes an insight and prints its status.
func (c *insightUnmuteCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		if err := s.UnmuteInsight(ctx, c.ID); err != nil {
			return insightError(c.ID, err)
		}
		i, err := s.FindInsightByID(ctx, "", c.ID)
		if err != nil {
			return insightError(c.ID, err)
		}
		e.say("the insight %s is %s", c.ID, i.Status)
		return nil
	})
}

func insightError(id string, err error) error {
	if code := assay.ErrorCode(err); code == assay.CodeInsightNotFound || code == assay.CodeNotFound {
		return fmt.Errorf("there is no insight %q", id)
	}
	return err
}
