// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"

	"assay"
	"assay/internal/auth"
)

// firstOrganization is the organization that an empty store gets.
const firstOrganization = "default"

// bootstrap gives an empty store its first organization and a key for it. It
// returns the key when it had to make one. A store that holds nothing but a first
// organization without a key, from a start that was cut short, is taken for empty.
func bootstrap(ctx context.Context, s store, cfg *serverConfig, logger *slog.Logger) (made auth.Secret, err error) {
	given, err := cfg.bootstrapKey()
	if err != nil {
		return "", err
	}
	o, err := emptyOrganization(ctx, s)
	if err != nil || o == nil {
		if o == nil && err == nil && given != "" {
			logger.InfoContext(ctx, "the store is not empty, so the bootstrap API key is not used")
		}
		return "", err
	}
	if o.ID == "" {
		if err := s.CreateOrganization(ctx, o); err != nil {
			return "", fmt.Errorf("make the organization %s: %w", o.Name, err)
		}
	}
	key, stored := auth.NewKey(cfg.APIKeyPrefix)
	if given != "" {
		stored.ID, _ = auth.ParseKey(cfg.APIKeyPrefix, given)
		stored.Hash = auth.HashKey(given)
	}
	stored.OrganizationID, stored.Name, stored.Scopes = o.ID, "bootstrap", assay.Scopes()
	if err := s.CreateAPIKey(ctx, stored); err != nil {
		return "", fmt.Errorf("make the API key %s: %w", stored.ID, err)
	}
	logger.InfoContext(ctx, "the store was empty and has an organization and a key now", "organization", o.Name, "key_id", stored.ID)
	if given != "" {
		return "", nil
	}
	return key, nil
}

// emptyOrganization returns the organization that an empty store lacks a key for,
// without an id when it has to be made; nil when the store is in use.
func emptyOrganization(ctx context.Context, s store) (*assay.Organization, error) {
	all, err := s.FindOrganizations(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return &assay.Organization{Name: firstOrganization, Tier: assay.TierFree}, nil
	}
	if len(all) > 1 || all[0].Name != firstOrganization {
		return nil, nil
	}
	keys, err := s.FindAPIKeys(ctx, all[0].ID)
	if err != nil || len(keys) > 0 {
		return nil, err
	}
	return all[0], nil
}
