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

// firstOrganization is the organization that an empty store gets.
const firstOrganization = "default"

// bootstrapLease is held by the one of several servers that looks whether the store
// is empty.
const bootstrapLease = "bootstrap"

// bootstrapWait is how long another server may hold the lease before it is asked for
// again.
const bootstrapWait = 100 * time.Millisecond

// leases gives out leases; lease.Coordinator implements it.
type leases interface {
	Acquire(ctx context.Context, name string) (bool, error)
	Release(ctx context.Context, name string) error
}

// bootstrap gives an empty store its first organization and a key for it. It
// returns the key when it had to make one, which keep has put in a safe place by then: a
// store with a key that is lost would be locked. A store that holds nothing but a first
// organization without a key, from a start that was cut short, is taken for empty. Of
// several servers that start together on an empty store one does it, and the others
// wait until it has.
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
		stored.ID, _ = auth.ParseKey(cfg.APIKeyPrefix, given)
		stored.Hash = auth.HashKey(given)
	}
	if given == "" {
		if err := keep(key); err != nil {
			return "", fmt.Errorf("write the API key (--bootstrap-api-key-file gives one instead): %w", err)
		}
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

// keepKey puts a key that was made where it outlives the process, where it is not printed.
func (s *server) keepKey(key auth.Secret) error {
	if !s.keyToFile {
		return nil
	}
	return s.cfg.writeBootstrapKey(string(key))
}
