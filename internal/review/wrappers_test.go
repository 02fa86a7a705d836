// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrappers checks that names and attributes are followed through functions of other files.
func TestWrappers(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"Go": {map[string]string{
			"go.mod": "module shop\n\ngo 1.26\n",
			"obs/obs.go": `package obs

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

func Begin(ctx context.Context, name string) (context.Context, func()) {
	ctx, span := otel.Tracer("shop").Start(ctx, name)
	return ctx, func() { span.End() }
}

func Tags(ctx context.Context, tags map[string]string) {
	span := trace.SpanFromContext(ctx)
	for key, value := range tags {
		span.SetAttributes(attribute.String(key, value))
	}
}

func Hashed(ctx context.Context, key, value string) {
	trace.SpanFromContext(ctx).SetAttributes(attribute.String(key, hash(value)))
}

type Recorder struct{ span trace.Span }

func (r *Recorder) Put(key string, value any) {
	r.span.SetAttributes(attribute.String(key, fmt.Sprint(value)))
}
`,
			"api/span.go": `package api

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

func tag(span trace.Span, key, value string) { span.SetAttributes(attribute.String(key, value)) }
`,
			"api/api.go": `package api

import (
	"log"

	"shop/obs"
	"shop/store"
)

func handle(ctx context.Context, id string, user *User, r *obs.Recorder, s *store.Store) {
	ctx, end := obs.Begin(ctx, "order "+id)
	obs.Tags(ctx, map[string]string{"card": user.CardNumber, "size": "s"})
	obs.Hashed(ctx, "card", user.CardNumber)
	r.Put("user.password", user.Password)
	s.Put("user.password", user.Password)
	tag(nil, "user.email", user.Email)
	tag(nil, "user.id", user.ID)
}
`,
		}, []string{"api/api.go:11 span-name-dynamic", "api/api.go:12 sensitive-attribute", "api/api.go:14 sensitive-attribute", "api/api.go:16 sensitive-attribute"}},
		"TypeScript": {map[string]string{
			"src/telemetry/index.ts": `import { trace, Span } from '@opentelemetry/api';

export const observe = (name: string, work: (span: Span) => void) =>
  trace.getTracer('shop').startActiveSpan(name, (span) => {
    try {
      work(span);
    } finally {
      span.end();
    }
  });

export function tags(values: Record<string, string>) {
  trace.getActiveSpan()?.setAttributes(values);
}

export class Telemetry {
  put(key: string, value: string) {
    trace.getActiveSpan()?.setAttribute(key, value);
  }
}
`,
			"src/orders.ts": `import { observe, tags, Telemetry } from './telemetry/index.js';
import * as telemetry from './telemetry';

export class Orders {
  constructor(private readonly telemetry: Telemetry, private readonly cache: Cache) {}

  load(id: string, user: User) {
    observe(` + "`order ${id}`" + `, () => console.log(id));
    tags({ 'user.email': user.email });
    telemetry.tags({ 'user.phone': user.phone, 'order.size': 's' });
    this.telemetry.put('user.password', user.password);
    this.cache.put('user.password', user.password);
  }
}
`,
		}, []string{"src/orders.ts:10 sensitive-attribute", "src/orders.ts:11 sensitive-attribute", "src/orders.ts:8 span-name-dynamic", "src/orders.ts:9 sensitive-attribute"}},
		"Python": {map[string]string{
			"shop/__init__.py": "",
			"shop/tracing.py": `from contextlib import contextmanager
from opentelemetry import trace

@contextmanager
def observe(name):
    with trace.get_tracer(__name__).start_as_current_span(name) as span:
        yield span

def tags(values):
    span = trace.get_current_span()
    for key, value in values.items():
        span.set_attribute(key, value)

def call(options):
    for key, value in options.attributes.items():
        trace.get_current_span().set_attribute(key, value)

class Telemetry:
    def put(self, key, value):
        trace.get_current_span().set_attribute(key, value)
`,
			"shop/orders.py": `import logging
from . import tracing
from shop import tracing as t
from shop.tracing import Telemetry, observe

telemetry = Telemetry()

def load(order_id, user, cache):
    with observe(f"order {order_id}"):
        tracing.tags({"user.email": user.email})
        t.tags(values={"user.phone": user.phone})
        telemetry.put("user.password", user.password)
        cache.put("user.password", user.password)
        t.call({"user.email": user.email})
`,
		}, []string{"shop/orders.py:10 sensitive-attribute", "shop/orders.py:11 sensitive-attribute", "shop/orders.py:12 sensitive-attribute", "shop/orders.py:9 span-name-dynamic"}},
		"Java": {map[string]string{
			"src/main/java/com/acme/shop/Telemetry.java": `package com.acme.shop;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;

public class Telemetry {
  private final Tracer tracer;

  static void tag(String key, Object value) {
    Span.current().setAttribute(key, String.valueOf(value));
  }

  void put(String key, String value) {
    Span.current().setAttribute(key, value);
  }

  void observe(String name, Runnable work) {
    Span span = tracer.spanBuilder(name).startSpan();
    try {
      work.run();
    } finally {
      span.end();
    }
  }
}
`,
			"src/main/java/com/acme/shop/web/Orders.java": `package com.acme.shop.web;

import com.acme.shop.Telemetry;
import org.slf4j.Logger;

class Orders {
  private final Telemetry telemetry;
  private final Cache cache;

  void load(String id, User user) {
    telemetry.observe("order " + id, () -> {});
    Telemetry.tag("user.email", user.getEmail());
    telemetry.put("user.password", user.getPassword());
    cache.put("user.password", user.getPassword());
  }
}
`,
		}, []string{"src/main/java/com/acme/shop/web/Orders.java:11 span-name-dynamic", "src/main/java/com/acme/shop/web/Orders.java:12 sensitive-attribute", "src/main/java/com/acme/shop/web/Orders.java:13 sensitive-attribute"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := review(t, Options{Root: tree(t, tt.files), Only: []string{"span-name-dynamic", "sensitive-attribute"}})
			require.Empty(t, r.Errors)
			require.ElementsMatch(t, tt.want, at(r))
		})
	}
}
