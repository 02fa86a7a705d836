// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"

	"assay/internal/delta"
	"assay/internal/lease"
	"assay/internal/score"
)

// replicaConfig says how a server appears among others on the same store, as flags.
type replicaConfig struct {
	ReplicaName string `placeholder:"NAME" help:"Name of this server among those on the same store; default the name of the host."`
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
			return "", fmt.Errorf("--replica-name: none is given and the host has none: %w", err)
		}
	}
	if !replicaName.MatchString(name) {
		return "", fmt.Errorf("--replica-name: %q does not consist of at most 255 letters, digits, dots, hyphens and underscores", name)
	}
	return name, nil
}

// work returns the leases that the replicas share out among themselves.
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

// join prepares the store when it is empty, and takes a place among the replicas and
// the store's time.
func (s *server) join(ctx context.Context) error {
	name, err := s.cfg.replicaName()
	if err != nil {
		return err
	}
	s.replica = lease.New(lease.Config{Store: s.store, Work: work(s.store), Name: name, Now: wallClock, Logger: s.logger})
	run, stop := context.WithCancel(context.Background())
	s.stopReplica = stop
	s.replicating.Go(func() { s.replica.Run(run) })
	if s.madeKey, err = bootstrap(ctx, s.store, s.replica, &s.cfg, s.keepKey, s.logger); err != nil {
		return fmt.Errorf("prepare the empty store: %w", err)
	}
	if err := s.replica.Renew(ctx); err != nil {
		return fmt.Errorf("join the other replicas: %w", err)
	}
	return s.own.WatchLeases(s.replica, score.Lease(""), score.ExpiryLease, delta.JournalLease(""))
}
