// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"assay"
)

type organizationCmd struct {
	Create  organizationCreateCmd  `cmd:"" help:"Create an organization."`
	List    organizationListCmd    `cmd:"" help:"List the organizations."`
	SetTier organizationSetTierCmd `cmd:"" name:"set-tier" help:"Set the tier of an organization."`

	SetExternalID organizationSetExternalIDCmd `cmd:"" name:"set-external-id" help:"Set the id of an organization at the identity provider, and sign its users out."`
}

type organizationCreateCmd struct {
	storeConfig
	Name       string `arg:"" help:"Unique name."`
	ExternalID string `name:"external-id" placeholder:"ID" help:"Id of the organization in tokens of the identity provider."`
	Tier       string `default:"free" enum:"free,pro,enterprise" help:"Subscription: ${enum} (${default})."`
}

func (c *organizationCreateCmd) problems() []error {
	ck := &check{problems: c.storeConfig.problems()}
	ck.that(strings.TrimSpace(c.Name) != "", "an organization needs a name")
	ck.that(len(c.Name) <= 200, "the name of an organization has at most 200 bytes")
	return ck.problems
}

// Run creates an organization and prints its id.
func (c *organizationCreateCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openOrCreate, func(ctx context.Context, s store) error {
		o := &assay.Organization{Name: c.Name, ExternalID: c.ExternalID, Tier: assay.Tier(c.Tier)}
		if err := s.CreateOrganization(ctx, o); err != nil {
			return err
		}
		_, err := fmt.Fprintln(e.stdout, o.ID)
		return err
	})
}

type organizationListCmd struct {
	storeConfig
	listFormat
}

// organizationRow is the JSON form of an organization in a list.
type organizationRow struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	ExternalID     string     `json:"external_id"`
	Tier           string     `json:"tier"`
	Score          *int       `json:"score"`
	Services       int        `json:"services_count"`
	ActiveInsights int        `json:"active_insights_count"`
	CreatedAt      *time.Time `json:"created_at"`
}

// Run lists organizations.
func (c *organizationListCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		found, err := s.FindOrganizations(ctx)
		if err != nil {
			return err
		}
		rows := make([]organizationRow, len(found))
		for i, o := range found {
			rows[i] = organizationRow{
				ID: o.ID, Name: o.Name, ExternalID: o.ExternalID, Tier: string(o.Tier),
				Services: o.ServicesCount, ActiveInsights: o.ActiveInsightsCount, CreatedAt: jsonTime(o.CreatedAt),
			}
			if o.Score != nil {
				score := assay.RoundScore(*o.Score)
				rows[i].Score = &score
			}
		}
		header := []string{"NAME", "TIER", "SCORE", "SERVICES", "ACTIVE INSIGHTS", "EXTERNAL ID", "ID"}
		return writeList(e, c.Format, rows, header, func(r organizationRow) []string {
			score := "-"
			if r.Score != nil {
				score = strconv.Itoa(*r.Score)
			}
			return []string{r.Name, r.Tier, score, strconv.Itoa(r.Services), strconv.Itoa(r.ActiveInsights), orDash(r.ExternalID), r.ID}
		})
	})
}

type organizationSetTierCmd struct {
	storeConfig
	Name string `arg:"" help:"Name of the organization."`
	Tier string `arg:"" enum:"free,pro,enterprise" help:"Subscription: ${enum}."`
}

// Run sets the tier of an organization.
func (c *organizationSetTierCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		o, err := organizationByName(ctx, s, c.Name)
		if err != nil {
			return err
		}
		if err := s.SetOrganizationTier(ctx, o.ID, assay.Tier(c.Tier)); err != nil {
			return err
		}
		e.say("the organization %s has the tier %s", o.Name, c.Tier)
		return nil
	})
}

type organizationSetExternalIDCmd struct {
	storeConfig
	Name       string `arg:"" help:"Name of the organization."`
	ExternalID string `arg:"" help:"Id of the organization in tokens of the identity provider; empty to remove it."`
}

// Run sets the external id of an organization.
func (c *organizationSetExternalIDCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		o, err := organizationByName(ctx, s, c.Name)
		if err != nil {
			return err
		}
		if err := s.SetOrganizationExternalID(ctx, o.ID, c.ExternalID); err != nil {
			return err
		}
		e.say("the organization %s has the external id %s", o.Name, orDash(c.ExternalID))
		return nil
	})
}

func organizationByName(ctx context.Context, s store, name string) (*assay.Organization, error) {
	o, err := s.FindOrganizationByName(ctx, name)
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return nil, fmt.Errorf("there is no organization %q", name)
	}
	return o, err
}

// organizationNames returns the names of all organizations by id, and the id of the one to list, "" for all.
func organizationNames(ctx context.Context, s store, listed string) (names map[string]string, id string, err error) {
	all, err := s.FindOrganizations(ctx)
	if err != nil {
		return nil, "", err
	}
	names = make(map[string]string, len(all))
	for _, o := range all {
		names[o.ID] = o.Name
	}
	if listed == "" {
		return names, "", nil
	}
	o, err := organizationByName(ctx, s, listed)
	if err != nil {
		return nil, "", err
	}
	return names, o.ID, nil
}
