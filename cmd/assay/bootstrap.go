// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"assay"
	"assay/internal/auth"
)

// firstOrganization is the name of the organization that is created in an empty store.
const firstOrganization = "default"

// bootstrapLease serializes bootstrap among servers on the same store.
const bootstrapLease = "bootstrap"

// bootstrapWait is the interval between attempts to acquire the lease.
const bootstrapWait = 100 * time.Millisecond

// leases acquires leases. It is implemented by lease.Coordinator.
type leases interface {
	Acquire(ctx context.Context, name string) (bool, error)
	Release(ctx context.Context, name string) error
}

// bootstrap creates the first organization of an empty store and a key for it. If it generated the key, it returns the
// key after keep has saved it: an organization whose only key is lost would be inaccessible. A store that contains
// only a first organization without a key, from an interrupted start, counts as empty. If several servers start
// concurrently on an empty store, one of them bootstraps it and the others wait.
func bootstrap(ctx context.Context, s store, l leases, cfg *serverConfig, keep func(key auth.Secret) error, logger *slog.Logger) (made auth.Secret, err error) {
	given, err := cfg.bootstrapKey()
	if err != nil {
		return "", err
	}
	for {
		held, err := l.Acquire(ctx, bootstrapLease)
		if err != nil {
			return "", err
		}
		if held {
			break
		}
		select {
		case <-time.After(bootstrapWait):
		case <-ctx.Done():
			return "", fmt.Errorf("another server prepares the store: %w", context.Cause(ctx))
		}
	}
	defer func() { err = errors.Join(err, l.Release(ctx, bootstrapLease)) }()
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
		id, ok := auth.ParseKey(cfg.APIKeyPrefix, given)
		if !ok {
			return "", errBootstrapKey(cfg.APIKeyPrefix)
		}
		stored.ID = id
		stored.Hash = auth.HashKey(given)
	}
	if given == "" {
		if err := keep(key); err != nil {
			return "", fmt.Errorf("write the API key (--bootstrap-api-key-file gives one instead): %w", err)
		}
	}
	stored.OrganizationID, stored.Name, stored.Scopes = o.ID, "bootstrap", assay.Scopes()
	if err := s.CreateAPIKey(ctx, stored, assay.APIKeyLimits{}); err != nil {
		return "", fmt.Errorf("create the API key %s: %w", stored.ID, err)
	}
	logger.InfoContext(ctx, "the store was empty and has an organization and a key now", "organization", o.Name, "key_id", stored.ID)
	if given != "" {
		return "", nil
	}
	return key, nil
}

// emptyOrganization returns the organization that needs a first key, without an id if it must be created. It returns
// nil if the store is in use.
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

// keepKey saves a generated key in the data directory, if it is not printed.
func (s *server) keepKey(key auth.Secret) error {
	if !s.keyToFile {
		return nil
	}
	return s.cfg.writeBootstrapKey(string(key))
}
