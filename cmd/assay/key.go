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
	"assay/internal/lists"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Create an API key and print it once, alone on standard output."`
	List   keyListCmd   `cmd:"" help:"List the API keys."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke an API key. Servers reject it within 5 s."`
}

type keyCreateCmd struct {
	storeConfig
	Organization string         `default:"default" placeholder:"NAME" help:"Organization of the key (${default})."`
	Name         string         `required:"" placeholder:"NAME" help:"Name of the key."`
	Scopes       []string       `default:"read,agent,ingest" placeholder:"SCOPE" help:"Scopes of the key: read, agent, ingest, admin (${default})."`
	ExpiresIn    *time.Duration `help:"Lifetime of the key. Default: unlimited."`
	APIKeyPrefix string         `name:"api-key-prefix" placeholder:"TEXT" help:"Prefix of the API keys of a new store, which keeps it. Default: assay."`
}

func (c *keyCreateCmd) problems() []error {
	ck := &check{problems: c.storeConfig.problems()}
	ck.that(strings.TrimSpace(c.Name) != "", "--name: a key needs a name")
	ck.that(len(c.Name) <= 200, "--name: more than 200 bytes")
	ck.that(len(c.Scopes) > 0, "--scopes: a key needs a scope")
	for _, s := range c.Scopes {
		ck.that(slices.Contains(assay.Scopes(), assay.Scope(s)), "--scopes: %q is not one of read, agent, ingest and admin", s)
	}
	if c.ExpiresIn != nil {
		ck.that(*c.ExpiresIn > 0, "--expires-in: %v is not positive; a key without the flag never expires", *c.ExpiresIn)
	}
	ck.err("api-key-prefix", checkKeyPrefix(c.APIKeyPrefix))
	return ck.problems
}

// Run creates a key.
func (c *keyCreateCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		o, err := organizationByName(ctx, s, c.Organization)
		if err != nil {
			return err
		}
		prefix, err := storedKeyPrefix(ctx, s, &c.storeConfig, c.APIKeyPrefix, "")
		if err != nil {
			return err
		}
		key, stored := auth.NewKey(prefix)
		stored.OrganizationID, stored.Name = o.ID, c.Name
		for _, scope := range assay.Scopes() {
			if slices.Contains(c.Scopes, string(scope)) {
				stored.Scopes = append(stored.Scopes, scope)
			}
		}
		if c.ExpiresIn != nil {
			stored.ExpiresAt = time.Now().Add(*c.ExpiresIn)
		}
		if err := s.CreateAPIKey(ctx, stored, assay.APIKeyLimits{}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(e.stdout, string(key)); err != nil {
			return fmt.Errorf("print the key, which is lost (revoke %s): %w", stored.ID, err)
		}
		e.say("the key %s of the organization %s is shown this once", stored.ID, o.Name)
		return nil
	})
}

// storedKeyPrefix returns the key prefix of the store. If the store has none, it stores flag or else fallback. A flag
// that differs from the stored prefix is an error, because no server would accept the existing keys. A store of an
// earlier version may have keys without a stored prefix. Then only a server, which has a fallback, stores it.
func storedKeyPrefix(ctx context.Context, s store, c *storeConfig, flag, fallback string) (string, error) {
	prefix, err := s.APIKeyPrefix(ctx, flag)
	if err == nil && prefix == "" {
		if fallback == "" {
			fallback = assay.DefaultAPIKeyPrefix
			switch keys, err := s.FindAPIKeys(ctx, ""); {
			case err != nil:
				return "", err
			case len(keys) > 0:
				return "", fmt.Errorf("the store %s was made by an earlier version and does not have the prefix of its API keys yet: start a server first, or give the --api-key-prefix of its servers (%s, unless it was set)", c.name(), assay.DefaultAPIKeyPrefix)
			}
		}
		prefix, err = s.APIKeyPrefix(ctx, fallback)
	}
	if err != nil {
		return "", fmt.Errorf("find the prefix of API keys: %w", err)
	}
	if flag != "" && flag != prefix {
		return "", usageError{fmt.Errorf("--api-key-prefix: the API keys of the store %s have the prefix %q, not %q; it cannot be changed, so remove the flag", c.name(), prefix, flag)}
	}
	return prefix, nil
}

type keyListCmd struct {
	storeConfig
	listFormat
	Organization string `placeholder:"NAME" help:"Organization whose keys are listed. Default: all."`
}

// keyRow is the JSON form of an API key in a list.
type keyRow struct {
	ID           string        `json:"id"`
	Organization string        `json:"organization"`
	Name         string        `json:"name"`
	Scopes       []assay.Scope `json:"scopes"`
	Status       string        `json:"status"`
	CreatedAt    *time.Time    `json:"created_at"`
	CreatedBy    *string       `json:"created_by"`
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

// Run lists keys.
func (c *keyListCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		names, organizationID, err := organizationNames(ctx, s, c.Organization)
		if err != nil {
			return err
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
			if k.CreatedBy != "" {
				rows[i].CreatedBy = &k.CreatedBy
			}
		}
		header := []string{"ID", "ORGANIZATION", "NAME", "SCOPES", "STATUS", "CREATED", "CREATED BY", "EXPIRES", "LAST USED"}
		return writeList(e, c.Format, rows, header, func(r keyRow) []string {
			scopes := lists.Map(r.Scopes, func(s assay.Scope) string { return string(s) })
			return []string{
				r.ID, r.Organization, r.Name, strings.Join(scopes, ","), r.Status,
				tableTime(r.key.CreatedAt), orDash(r.key.CreatedBy), tableTime(r.key.ExpiresAt), tableTime(r.key.LastUsedAt),
			}
		})
	})
}

type keyRevokeCmd struct {
	storeConfig
	ID string `arg:"" name:"keyid" help:"The six characters before the last underscore of the key."`
}

// Run revokes a key.
func (c *keyRevokeCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		switch err := s.RevokeAPIKey(ctx, c.ID); {
		case assay.ErrorCode(err) == assay.CodeNotFound && len(c.ID) > 6:
			return fmt.Errorf("there is no such key; its id is the six characters before the last underscore") // do not print the argument: it may be a whole key
		case assay.ErrorCode(err) == assay.CodeNotFound:
			return fmt.Errorf("there is no key %q", c.ID)
		case err != nil:
			return err
		}
		e.say("the key %s is revoked", c.ID)
		return nil
	})
}
