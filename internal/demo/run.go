// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"assay/internal/auth"
)

// Config configures Run. The addresses and the key are required. Other zero fields select the default.
type Config struct {
	GRPCAddress string        // of OTLP/gRPC, host and port
	HTTPAddress string        // of OTLP/HTTP, host and port
	Key         auth.Secret   // API key with scope ingest
	Interval    time.Duration // interval between batches of a service; default 2 s
	Now         func() time.Time
	Logger      *slog.Logger
}

// Run sends the fleet's telemetry until ctx ends, starting with the history. Refused batches are logged and dropped.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Interval <= 0 {
		cfg.Interval = 2 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s, err := newSender(cfg)
	if err != nil {
		return err
	}
	defer s.close()
	var services sync.WaitGroup
	for i := range fleet {
		services.Go(func() { s.runService(ctx, cfg, &fleet[i]) })
	}
	services.Wait()
	return nil
}

// runService sends the telemetry of one service.
func (s *sender) runService(ctx context.Context, cfg Config, m *member) {
	g := newGenerator(rand.Uint64())
	now := cfg.Now()
	hour := now.Truncate(time.Hour)
	b := newBatch()
	g.past(m, now, b)
	m.emit(g, now, b)

	ticker := time.NewTicker(cfg.Interval)
	defer ticker.Stop()
	for {
		if err := s.send(ctx, m.transport, b); err != nil && ctx.Err() == nil {
			cfg.Logger.WarnContext(ctx, "simulated service failed to send", "service", m.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, b = cfg.Now(), newBatch()
		if h := now.Truncate(time.Hour); h.After(hour) {
			hour = h
			g.hourly(m, now, b)
		}
		m.emit(g, now, b)
	}
}
