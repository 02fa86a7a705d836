// SPDX-License-Identifier: Apache-2.0

// Package shop is a service whose telemetry has two faults.
package shop

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
)

var tracer = otel.Tracer("shop")

// Order places an order and returns its number of items.
func Order(ctx context.Context, id, email string, items ...string) int {
	_, span := tracer.Start(ctx, "order "+id)
	defer span.End()
	span.SetAttributes(attribute.String("user.email", email))
	span.SetAttributes(attribute.Int("order.items", len(items)))
	return len(items)
}
