// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"

	"assay/internal/wire"
)

// Timestamps calls visit with the timestamp of every record of a request, 0 for a record
// without one. When ctx ends, it stops and returns the context's cause.
func Timestamps(ctx context.Context, signal wire.Signal, body []byte, visit func(unixNano uint64)) error {
	entries, err := wire.Request(body)
	if err != nil {
		return err
	}
	var entry wire.ResourceEntry
	var scope wire.ScopeEntry
	steps := 0
	ended := func() error {
		if steps++; steps%stepsBetweenChecks != 0 || ctx.Err() == nil {
			return nil
		}
		return fmt.Errorf("read timestamps: %w", context.Cause(ctx))
	}
	for m, ok := entries.Next(); ok; m, ok = entries.Next() {
		if err := ended(); err != nil {
			return err
		}
		if err := entry.Decode(m); err != nil {
			return err
		}
		for sm, ok := entry.Scopes.Next(); ok; sm, ok = entry.Scopes.Next() {
			if err := ended(); err != nil {
				return err
			}
			if err := scope.Decode(sm); err != nil {
				return err
			}
			for rm, ok := scope.Records.Next(); ok; rm, ok = scope.Records.Next() {
				if err := ended(); err != nil {
					return err
				}
				if err := recordTimestamps(signal, rm, visit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func recordTimestamps(signal wire.Signal, m wire.Message, visit func(uint64)) error {
	switch signal {
	case wire.Traces:
		var s wire.Span
		if err := s.Decode(m); err != nil {
			return err
		}
		visit(s.EndTimeUnixNano)
	case wire.Metrics:
		var x wire.Metric
		if err := x.Decode(m); err != nil {
			return err
		}
		for pm, ok := x.DataPoints.Next(); ok; pm, ok = x.DataPoints.Next() {
			var p wire.DataPoint
			if err := p.Decode(x.Type, pm); err != nil {
				return err
			}
			visit(p.TimeUnixNano)
		}
	case wire.Logs:
		var r wire.LogRecord
		if err := r.Decode(m); err != nil {
			return err
		}
		if r.TimeUnixNano == 0 {
			r.TimeUnixNano = r.ObservedTimeUnixNano
		}
		visit(r.TimeUnixNano)
	default:
		return fmt.Errorf("timestamps: unknown signal %d", signal)
	}
	return nil
}
