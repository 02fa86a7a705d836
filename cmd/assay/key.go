// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay"
	"assay/internal/auth"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make an API key and print it, this once, alone on standard output."`
	List   keyListCmd   `cmd:"" help:"List the API keys."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke an API key. Servers refuse it within 5 s."`
}

type keyCreateCmd struct {
	storeConfig
	Organization string        `default:"default" placeholder:"NAME" help:"Whose key it is (${default})."`
	Name         string        `required:"" placeholder:"NAME" help:"What the key is for."`
	Scopes       []string      `default:"read,agent,ingest" placeholder:"SCOPE" help:"What the key may do: read, agent, ingest (these three), admin."`
	ExpiresIn    time.Duration `help:"The key ends after this time; without it, never."`
	APIKeyPrefix string        `name:"api-key-prefix" default:"assay" placeholder:"TEXT" help:"How the key begins, as the servers expect it (${default})."`
}

func (c *keyCreateCmd) problems() []error {
	ck := &check{problems: c.storeConfig.problems()}
	ck.that(strings.TrimSpace(c.Name) != "", "--name: a key needs a name")
	ck.that(len(c.Name) <= 200, "--name: more than 200 bytes")
	ck.that(len(c.Scopes) > 0, "--scopes: a key needs a scope")
	for _, s := range c.Scopes {
		ck.that(slices.Contains(assay.Scopes(), assay.Scope(s)), "--scopes: %q is not one of read, agent, ingest and admin", s)
	}
	ck.that(c.ExpiresIn >= 0, "--expires-in: %v is negative", c.ExpiresIn)
	ck.that(keyPrefix.MatchString(c.APIKeyPrefix), "--api-key-prefix: %q does not consist of at most 32 letters, digits and hyphens that begin with a letter", c.APIKeyPrefix)
	return ck.problems
}

// Run makes the key.
func (c *keyCreateCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		o, err := organizationByName(ctx, s, c.Organization)
		if err != nil {
			return err
		}
		key, stored := auth.NewKey(c.APIKeyPrefix)
		stored.OrganizationID, stored.Name = o.ID, c.Name
		for _, scope := range assay.Scopes() {
			if slices.Contains(c.Scopes, string(scope)) {
				stored.Scopes = append(stored.Scopes, scope)
			}
		}
		if c.ExpiresIn > 0 {
			stored.ExpiresAt = time.Now().Add(c.ExpiresIn)
		}
		if err := s.CreateAPIKey(ctx, stored); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(e.stdout, string(key)); err != nil {
			return fmt.Errorf("print the key, which is lost (revoke %s): %w", stored.ID, err)
		}
		e.say("the key %s of the organization %s is shown this once", stored.ID, o.Name)
		return nil
	})
}

type keyListCmd struct {
	storeConfig
	listFormat
	Organization string `placeholder:"NAME" help:"Only the keys of this organization."`
}

// keyRow is an API key as list shows it.
type keyRow struct {
	ID           string        `json:"id"`
	Organization string        `json:"organization"`
	Name         string        `json:"name"`
	Scopes       []assay.Scope `json:"scopes"`
	Status       string        `json:"status"`
	CreatedAt    *time.Time    `json:"created_at"`
	ExpiresAt    *time.Time    `json:"expires_at"`
	LastUsedAt   *time.Time    `json:"last_used_at"`
	RevokedAt    *time.Time    `json:"revoked_at"`
	key          *assay.APIKey
}

func keyStatus(k *assay.APIKey, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked"
	case !k.Live(now):
		return "expired"
	default:
		return "active"
	}
}

// Run lists.
func (c *keyListCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		names, err := organizationNames(ctx, s)
		if err != nil {
			return err
		}
		var organizationID string
		if c.Organization != "" {
			o, err := organizationByName(ctx, s, c.Organization)
			if err != nil {
				return err
			}
			organizationID = o.ID
		}
		keys, err := s.FindAPIKeys(ctx, organizationID)
		if err != nil {
			return err
		}
		now := time.Now()
		rows := make([]keyRow, len(keys))
		for i, k := range keys {
			rows[i] = keyRow{
				ID: k.ID, Organization: names[k.OrganizationID], Name: k.Name, Scopes: k.Scopes, Status: keyStatus(k, now),
				CreatedAt: jsonTime(k.CreatedAt), ExpiresAt: jsonTime(k.ExpiresAt), LastUsedAt: jsonTime(k.LastUsedAt), RevokedAt: jsonTime(k.RevokedAt),
				key: k,
			}
		}
		header := []string{"ID", "ORGANIZATION", "NAME", "SCOPES", "STATUS", "CREATED", "EXPIRES", "LAST USED"}
		return writeList(e, c.Format, rows, header, func(r keyRow) []string {
			scopes := make([]string, len(r.Scopes))
			for i, s := range r.Scopes {
				scopes[i] = string(s)
			}
			return []string{
				r.ID, r.Organization, r.Name, strings.Join(scopes, ","), r.Status,
				tableTime(r.key.CreatedAt), tableTime(r.key.ExpiresAt), tableTime(r.key.LastUsedAt),
			}
		})
	})
}

type keyRevokeCmd struct {
	storeConfig
	ID string `arg:"" name:"keyid" help:"The six characters that stand before the last underscore of the key."`
}

// Run revokes.
func (c *keyRevokeCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		switch err := s.RevokeAPIKey(ctx, c.ID); {
		case assay.ErrorCode(err) == assay.CodeNotFound && len(c.ID) > 6:
			return fmt.Errorf("there is no such key; its id is the six characters before the last underscore") // what was given may be a whole key
		case assay.ErrorCode(err) == assay.CodeNotFound:
			return fmt.Errorf("there is no key %q", c.ID)
		case err != nil:
			return err
		}
		e.say("the key %s is revoked", c.ID)
		return nil
	})
}
