// SPDX-License-Identifier: Apache-2.0

// Package store keeps orders.
package store

import (
	"context"

	"github.com/opentracing/opentracing-go"
)

var orders = map[string]string{}

// Save saves an order.
func Save(ctx context.Context, id string) {
	span, _ := opentracing.StartSpanFromContext(ctx, "save", opentracing.Tags{
		"span.kind":    "client",
		"db.type":      "sql",
		"db.statement": "INSERT INTO orders VALUES (?)",
	})
	defer span.Finish()
	orders[id] = "placed"
	span.LogKV("event", "saved", "rows", 1)
}

// Load returns the state of an order.
func Load(ctx context.Context, id string) string {
	if parent := opentracing.SpanFromContext(ctx); parent != nil {
		span := opentracing.StartSpan("load", opentracing.ChildOf(parent.Context()))
		defer span.Finish()
		span.SetTag("rows", rows(id))
	}
	return orders[id]
}

func rows(id string) interface{} {
	if _, ok := orders[id]; ok {
		return 1
	}
	return 0
}
