// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"

	"assay/internal/auth"
	"assay/internal/delta"
	"assay/internal/lease"
	"assay/internal/score"
)

// replicaConfig holds the flags of a replica.
type replicaConfig struct {
	ReplicaName string `placeholder:"NAME" help:"Name of this replica, unique among the servers of one store. Default: the host name." group:"store"`
}

var replicaName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,255}$`)

func (c *replicaConfig) problems() []error {
	var ck check
	_, err := c.replicaName()
	ck.add(err)
	return ck.problems
}

func (c *replicaConfig) replicaName() (string, error) {
	name := c.ReplicaName
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("--replica-name: not set, and the host name is unavailable: %w", err)
		}
	}
	if !replicaName.MatchString(name) {
		return "", fmt.Errorf("--replica-name: %q does not consist of at most 255 letters, digits, dots, hyphens and underscores", name)
	}
	return name, nil
}

// work returns the leases that the replicas share.
func work(s store) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		ids, err := s.OrganizationIDs(ctx)
		if err != nil {
			return nil, err
		}
		names := make([]string, 0, 1+len(ids))
		names = append(names, score.ExpiryLease)
		for _, id := range ids {
			names = append(names, score.Lease(id))
		}
		return names, nil
	}
}

// join bootstraps an empty store, registers the replica and synchronizes with the store's clock.
func (s *server) join(ctx context.Context) error {
	name, err := s.cfg.replicaName()
	if err != nil {
		return err
	}
	s.replica = lease.New(lease.Config{Store: s.store, Work: work(s.store), Name: name, Now: wallClock, Logger: s.logger})
	run, stop := context.WithCancel(context.Background())
	s.stopReplica = stop
	s.replicating.Go(func() { s.replica.Run(run) })
	fallback, err := s.cfg.defaultKeyPrefix()
	if err != nil {
		return err
	}
	if s.cfg.APIKeyPrefix, err = storedKeyPrefix(ctx, s.store, &s.cfg.storeConfig, s.cfg.APIKeyPrefix, fallback); err != nil {
		return err
	}
	s.keys = &auth.KeyManager{Store: s.store, Prefix: s.cfg.APIKeyPrefix, Now: s.replica.Now, Logger: s.logger}
	if s.createdKey, err = bootstrap(ctx, s.store, s.replica, &s.cfg, s.keepKey, s.logger); err != nil {
		return fmt.Errorf("prepare the empty store: %w", err)
	}
	if err := s.replica.Renew(ctx); err != nil {
		return fmt.Errorf("join the other replicas: %w", err)
	}
	return s.own.WatchLeases(s.replica, score.Lease(""), score.ExpiryLease, delta.JournalLease(""))
}
