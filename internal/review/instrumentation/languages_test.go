// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

func TestLanguages(t *testing.T) {
	for _, tt := range []struct {
		name, file, code string
		want             []string
	}{
		{"JavaScript spans", "a.js", `
const { trace, SpanStatusCode, SpanKind } = require('@opentelemetry/api');
const tracer = trace.getTracer('shop');
async function load(id) {
  return tracer.startActiveSpan('load', { kind: SpanKind.CLIENT, attributes: { 'order.id': id } }, async (span) => {
    try {
      span.setAttribute('a', id);
      span.addEvent('cached', { hit: true });
      return await get(id);
    } catch (err) {
      span.recordException(err);
      span.setStatus({ code: SpanStatusCode.ERROR });
      throw err;
    } finally {
      span.end();
    }
  });
}
function other(user) {
  const span = tracer.startSpan(` + "`other ${user}`" + `);
  span.setAttributes({ 'user.email': user.email, ...rest });
  finish(span);
  element.setAttribute('href', 'no');
}
`, []string{
			`span 'load' in "shop" kind "client" var "span" ends 1 errors 2`,
			"span `other ${user}` in \"shop\" kind \"\" var \"span\" ends 0 errors 0 escapes",
			`attribute span: 'order.id' = id of 'load'`,
			`attribute span: 'a' = id of 'load'`,
			`attribute event: hit = true of 'load'`,
			"attribute span: 'user.email' = user.email of `other ${user}`",
		}},
		{"JavaScript constants of the conventions with other names", "a.ts", `
import { Resource } from '@opentelemetry/resources';
import { ATTR_SERVICE_NAME as NAME } from '@opentelemetry/semantic-conventions';
new Resource({ [NAME]: 'shop' });
`, []string{
			`attribute resource: NAME = 'shop'`,
			`resource [service.name] detectors 0 environment false opaque false`,
		}},
		{"Python constants of resources", "a.py", `
from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import Resource, SERVICE_NAME, SERVICE_VERSION as VERSION
Resource({SERVICE_NAME: "shop", VERSION: "1", resources.SERVICE_INSTANCE_ID: instance})
`, []string{
			`attribute resource: SERVICE_NAME = "shop"`,
			`attribute resource: VERSION = "1"`,
			`attribute resource: resources.SERVICE_INSTANCE_ID = instance`,
			`resource [service.instance.id service.name service.version] detectors 0 environment false opaque false`,
		}},
		{"TypeScript metrics, logs and setup", "a.ts", `
import { metrics, type Counter } from '@opentelemetry/api';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { ATTR_SERVICE_NAME } from '@opentelemetry/semantic-conventions';
import { getNodeAutoInstrumentations } from '@opentelemetry/auto-instrumentations-node';
import express from 'express';
import pino from 'pino';
const meter = metrics.getMeter('m');
class Shop {
  private readonly hits: Counter = meter.createCounter('hits', { description: 'Hits.' });
  private latency = meter.createHistogram('latency', { unit: 's' });
  record(req: Request): void {
    this.hits.add(1, { 'user.id': req.user.id });
    this.latency?.record(3, { route: req.route });
    logger.info({ user: req.user }, 'done %s', req.url);
    console.log('token', token);
    set.add(1);
  }
}
const logger = pino({ level: 'debug' });
const sdk = new NodeSDK({ resource: resourceFromAttributes({ [ATTR_SERVICE_NAME]: 'shop' }), instrumentations: [getNodeAutoInstrumentations()] });
new NodeSDK({ serviceName: 'x' });
const app = express();
`, []string{
			`attribute metric: 'user.id' = req.user.id of 'hits'`,
			`attribute metric: route = req.route of 'latency'`,
			`counter 'hits' unit - var "hits" scope "m"`,
			`histogram 'latency' unit 's' var "latency" scope "m"`,
			`log "info" 'done %s' [req.url; { user: req.user }]`,
			`log "info" 'token' [token]`,
			`level debug 'debug' conditional false`,
			`attribute resource: ATTR_SERVICE_NAME = 'shop'`,
			`resource [service.name] detectors 0 environment false opaque false`,
			`resource [service.name] detectors 0 environment true opaque false`,
			`http server express instrumented false`,
			`instruments auto`,
		}},
		{"Python", "a.py", `
import logging
from opentelemetry import trace, metrics
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from flask import Flask

tracer = trace.get_tracer(__name__)
meter = metrics.get_meter("m")
hits = meter.create_counter("hits", "1", "Hits.")
latency = meter.create_histogram(name="latency", unit="s")
logger = logging.getLogger(__name__)
app = Flask(__name__)
resource = Resource.create({"service.name": "shop"})
logging.basicConfig(level=logging.DEBUG)

def load(user):
    with tracer.start_as_current_span(f"load {user.id}", kind=SpanKind.SERVER, attributes={"a": 1}) as span:
        span.set_attribute("user.email", user.email)
        span.set_status(Status(StatusCode.OK))
        hits.add(1, {"user": user.id})
        logger.info("user %s", user.email, extra={"k": user})
        logger.error(f"failed {user}", exc_info=True)

@tracer.start_as_current_span("decorated")
def other():
    span = tracer.start_span("manual")
    try:
        work()
    except ValueError as e:
        span.record_exception(e)
        span.set_status(Status(StatusCode.ERROR))
    finally:
        span.end()
    trace.get_current_span().set_attributes({"b": 2})
`, []string{
			`span f"load {user.id}" in "" kind "server" var "span" ends 0 errors 0 ends itself records errors`,
			`span "decorated" in "" kind "" var "" ends 0 errors 0 ends itself records errors`,
			`span "manual" in "" kind "" var "span" ends 1 errors 2`,
			`attribute span: "a" = 1 of f"load {user.id}"`,
			`attribute span: "user.email" = user.email of f"load {user.id}"`,
			`attribute metric: "user" = user.id of "hits"`,
			`attribute span: "b" = 2`,
			`counter "hits" unit "1" var "hits" scope "m"`,
			`histogram "latency" unit "s" var "latency" scope "m"`,
			`log "info" "user %s" [user.email; {"k": user}]`,
			`log "error" f"failed {user}" []`,
			`level debug logging.DEBUG conditional false`,
			`attribute resource: "service.name" = "shop"`,
			`resource [service.name] detectors 0 environment true opaque false`,
			`http server flask instrumented false`,
			`instruments flask`,
		}},
		{"Java", "A.java", `
package shop;
import io.opentelemetry.api.common.*;
import io.opentelemetry.api.trace.*;
import io.opentelemetry.instrumentation.annotations.WithSpan;
import io.opentelemetry.instrumentation.annotations.SpanAttribute;
import io.opentelemetry.sdk.resources.Resource;
import org.slf4j.Logger;
class Orders {
  private static final AttributeKey<String> USER = AttributeKey.stringKey("user.email");
  private final Tracer tracer = openTelemetry.getTracer("shop");
  private final LongCounter hits = meter.counterBuilder("hits").setUnit("{hit}").build();
  private final DoubleHistogram latency = meter.histogramBuilder("latency").build();
  void load(User user) {
    Span span = tracer.spanBuilder("load " + user.getId()).setSpanKind(SpanKind.CLIENT).setAttribute("a", 1).startSpan();
    try (Scope scope = span.makeCurrent()) {
      span.setAttribute(USER, user.getEmail());
      hits.add(1, Attributes.of(AttributeKey.stringKey("user"), user.getId()));
      latency.record(2, Attributes.builder().put("route", route).build());
      log.info("user {}", user.getEmail());
    } catch (Exception e) {
      span.recordException(e);
      span.setStatus(StatusCode.ERROR, "failed");
      throw e;
    } finally {
      span.end();
    }
  }
  @WithSpan("annotated")
  void annotated(@SpanAttribute("card") String card) {
    Span.current().setAttribute("k", card);
    SpanBuilder builder = tracer.spanBuilder("built");
    builder.setAttribute("b", 2);
    Span s = builder.startSpan();
    s.end();
    Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), "shop"));
  }
}
`, []string{
			`span "annotated" in "" kind "" var "" ends 0 errors 0 ends itself records errors`,
			`span "load " + user.getId() in "shop" kind "client" var "span" ends 1 errors 2`,
			`span "built" in "shop" kind "" var "s" ends 1 errors 0`,
			`attribute span: "a" = 1 of "load " + user.getId()`,
			`attribute span: USER = user.getEmail() of "load " + user.getId()`,
			`attribute metric: AttributeKey.stringKey("user") = user.getId() of "hits"`,
			`attribute metric: "route" = route of "latency"`,
			`attribute span: "card" = @SpanAttribute("card") String card`,
			`attribute span: "k" = card`,
			`attribute span: "b" = 2 of "built"`,
			`attribute resource: AttributeKey.stringKey("service.name") = "shop"`,
			`counter "hits" unit "{hit}" var "hits" scope ""`,
			`histogram "latency" unit - var "latency" scope ""`,
			`log "info" "user {}" [user.getEmail()]`,
			`resource [service.name] detectors 0 environment false opaque false`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := parse(t, tt.file, tt.code)
			require.False(t, f.Broken)
			got := describe(Find(f, nil))
			require.ElementsMatch(t, tt.want, got, strings.Join(got, "\n"))
		})
	}
}

// TestNoop: instruments that record nothing are none, whatever their package is called in the file.
func TestNoop(t *testing.T) {
	for _, tt := range []struct{ file, noop, real string }{
		{"a.go", "package a\n\nimport quiet \"go.opentelemetry.io/otel/metric/noop\"\n\nvar provider = quiet.NewMeterProvider()\nvar meter = provider.Meter(\"m\")\nvar hits, _ = meter.Int64Counter(\"hits\")\n", "otel/metric"},
		{"a.go", "package a\n\nimport quiet \"go.opentelemetry.io/otel/metric/noop\"\n\nvar meter = quiet.Meter{}\nvar hits, _ = meter.Int64Counter(\"hits\")\n", "otel/metric"},
		{"a.js", "const { createNoopMeter: meter } = require('@opentelemetry/api');\nconst hits = meter().createCounter('hits');\n", "createMeter"},
		{"a.ts", "import { createNoopMeter as newMeter } from '@opentelemetry/api';\nconst meter = newMeter();\nconst hits = meter.createCounter('hits');\n", "getMeter"},
		{"a.py", "from opentelemetry.metrics import NoOpMeterProvider as Provider\n\nmeter = Provider().get_meter(\"m\")\nhits = meter.create_counter(\"hits\")\n", "MeterProvider"},
		{"A.java", "import io.opentelemetry.api.OpenTelemetry;\n\nclass A {\n  Meter meter = OpenTelemetry.noop().getMeter(\"m\");\n  LongCounter hits = meter.counterBuilder(\"hits\").build();\n}\n", "get"},
	} {
		find := func(code string) int {
			if syntax.LanguageOf(tt.file) == syntax.Go {
				f, err := syntax.ParseGo(tt.file, []byte(code))
				require.NoError(t, err)
				return len(Find(f, nil).Instruments)
			}
			return len(Find(parse(t, tt.file, code), nil).Instruments)
		}
		require.Zero(t, find(tt.noop), tt.noop)
		for _, noop := range []string{"otel/metric/noop", "createNoopMeter", "NoOpMeterProvider", "noop"} {
			tt.noop = strings.Replace(tt.noop, noop, tt.real, 1)
		}
		require.Equal(t, 1, find(tt.noop), tt.noop)
	}
	for name, want := range map[string]bool{"noopMeter": true, "isNoop": true, "NOOP_TRACER": true, "no_op": true, "example.com/noop": true, "snoop": false, "noopener": false, "example.com/snoopy": false} {
		require.Equal(t, want, NoopName(name), name)
	}
}

// TestOtherLibraries: spans and tracers of other libraries are not OpenTelemetry's in a file that uses both.
func TestOtherLibraries(t *testing.T) {
	for _, tt := range []struct {
		name, file, code string
		want             int // spans and attributes
	}{
		{"Python", "a.py", "tracer = trace.get_tracer('q')\nspan = tracer.start_span('x')\nspan.set_attribute('k', v)\n", 2},
		{"Python, OpenTracing", "a.py", "import opentracing\nt = opentracing.global_tracer()\nspan = t.start_span('x')\nspan.set_attribute('k', v)\n", 0},
		{"Python, OpenTracing's module", "a.py", "import opentracing\nspan = opentracing.tracer.start_span('x')\n", 0},
		{"Python, field", "a.py", "import opentracing\nself.tracer = opentracing.global_tracer()\nspan = self.tracer.start_span('x')\n", 0},
		{"Python, imported tracer", "a.py", "from ddtrace import tracer\nspan = tracer.start_span('x')\n", 0},
		{"Python, context manager", "a.py", "import sentry_sdk\nwith sentry_sdk.start_span('x') as span:\n    span.set_attribute('k', v)\n", 0},
		{"Python, class", "a.py", "from lightstep import Tracer\ntracer = Tracer()\nspan = tracer.start_span('x')\n", 0},
		{"Python, class of the project", "a.py", "from .tracing import Tracer\ntracer = Tracer()\nspan = tracer.start_span('x')\n", 1},
		{"Python, function of the project", "a.py", "from app.tracing import get_tracer\ntracer = get_tracer()\nspan = tracer.start_span('x')\n", 1},
		{"Python, parameter", "a.py", "import opentracing\ndef f(tracer: opentracing.Tracer):\n    span = tracer.start_span('x')\n", 0},
		{"JavaScript, OpenTracing", "a.js", "const ot = require('opentracing');\nconst tracer = ot.globalTracer();\nconst span = tracer.startSpan('x');\nspan.setAttribute('k', v);\n", 0},
		{"JavaScript, require", "a.js", "const span = require('opentracing').globalTracer().startSpan('x');\nspan.setAttribute('k', v);\n", 0},
		{"JavaScript, callback", "a.js", "const Sentry = require('@sentry/node');\nSentry.startSpan('x', (span) => span.setAttribute('k', v));\n", 0},
		{"JavaScript, class", "a.js", "const lightstep = require('lightstep-tracer');\nconst tracer = new lightstep.Tracer();\nconst span = tracer.startSpan('x');\n", 0},
		{"TypeScript, type", "a.ts", "import { Tracer } from 'opentracing';\nfunction f(tracer: Tracer) { const span = tracer.startSpan('x'); }\n", 0},
		{"TypeScript, type of the API", "a.ts", "import { Tracer } from '@opentelemetry/api';\nfunction f(tracer: Tracer) { const span = tracer.startSpan('x'); }\n", 1},
		{"Java, imported types", "A.java", "import other.Tracer;\nimport other.Span;\nclass A { Tracer tracer; void f() { Span span = tracer.spanBuilder(\"x\").startSpan(); span.setAttribute(\"k\", v); } }\n", 0},
		{"Java, qualified types", "A.java", "class A { io.opencensus.trace.Tracer tracer; void f() { var s = tracer.spanBuilder(\"x\").startSpan(); s.setAttribute(\"k\", v); } }\n", 0},
		{"Java, types of the API", "A.java", "import io.opentelemetry.api.trace.Tracer;\nclass A { Tracer tracer; void f() { var s = tracer.spanBuilder(\"x\").startSpan(); s.setAttribute(\"k\", v); } }\n", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both := map[syntax.Language]string{
				syntax.Python: "from opentelemetry import trace\n", syntax.JavaScript: "const { trace } = require('@opentelemetry/api');\n",
				syntax.TypeScript: "import { trace } from '@opentelemetry/api';\n", syntax.Java: "import io.opentelemetry.api.GlobalOpenTelemetry;\n",
			}
			u := Find(parse(t, tt.file, both[syntax.LanguageOf(tt.file)]+tt.code), nil)
			require.Equal(t, tt.want, len(u.Spans)+len(u.Attributes), describe(u))
		})
	}
}

// TestSpanVariables: what is set on a variable is set on a span because of what the variable is declared as or holds,
// and because of its name only if it holds nothing else.
func TestSpanVariables(t *testing.T) {
	const (
		js   = "import { trace, type Span } from '@opentelemetry/api';\n"
		py   = "from opentelemetry import trace\nfrom opentelemetry.trace import Span\n"
		java = "import io.opentelemetry.api.trace.Span;\n"
	)
	for _, tt := range []struct {
		name, file, code string
		want             int // attributes and names
	}{
		{"typed parameter", "a.ts", js + "function f(s: Span, o?: Span | undefined, p: Span | null) { s.setAttribute('k', v); o?.setAttribute('k', v); p!.updateName(v); }", 3},
		{"typed field", "a.ts", js + "class A { constructor(private readonly current: Span) {} f() { this.current.setAttribute('k', v); } }", 1},
		{"typed field of another object", "a.ts", js + "class A { private current: Span; f() { ref.current.setAttribute('k', v); } }", 0},
		{"imported under another name", "a.ts", "import { Span as Current } from '@opentelemetry/api';\nfunction f(s: Current) { s.setAttribute('k', v); }", 1},
		{"type of a namespace", "a.ts", "import * as api from '@opentelemetry/api';\nfunction f(s: api.Span) { s.setAttribute('k', v); }", 1},
		{"current span", "a.ts", js + "const current = trace.getActiveSpan();\ncurrent?.setAttributes({ k: v });\nconst again = current;\nagain.setAttribute('k', v);", 2},
		{"other variables", "a.ts", js + "const current = page.getActive();\ncurrent.setAttribute('k', v);\nfunction f(s: Element, a) { s.setAttribute('k', v); a.setAttribute('k', v); }", 0},
		{"variable of a loop over a span", "a.ts", js + "const current = trace.getActiveSpan();\nfor (const child of current) child.setAttribute('k', v);", 0},
		{"named", "a.ts", js + "function f(span) { span.setAttribute('k', v); }\nconst hooks = { requestHook: (span, request) => span.setAttribute('k', v) };\nspans.forEach((span) => span.setAttribute('k', v));", 3},
		{"named, held by a field", "a.ts", js + "this.span = this.startSpan('x');\nthis.span.setAttribute('k', v);\nconst span = this.span;\nspan.setAttribute('k', v);\nlet childSpan;\nchildSpan.setAttribute('k', v);", 3},
		{"named, of a type of the project", "a.ts", "import { Span } from './telemetry';\nfunction f(span: Span, s: Span) { span.setAttribute('k', v); s.setAttribute('k', v); }", 1},
		{"named, without traces", "a.ts", "function f(span) { span.setAttribute('k', v); }", 0},
		{"created element", "a.ts", js + "const span = document.createElement('span');\nspan.setAttribute('k', v);", 0},
		{"element of a list", "a.js", "const { trace } = require('@opentelemetry/api');\nconst span = $('<span>')[0];\nspan.setAttribute('k', v);", 0},
		{"selected elements", "a.ts", js + "document.querySelectorAll('span').forEach((span) => span.setAttribute('k', v));\nfor (const span of el.children) span.setAttribute('k', v);\nconst spans = page.all();\nfor (const span of spans) span.setAttribute('k', v);", 0},
		{"typed elements", "a.ts", js + "function f(span: HTMLSpanElement, otherSpan: HTMLElement | null) { span.setAttribute('k', v); otherSpan.setAttribute('k', v); }\nclass A { private span: Element; f() { this.span.setAttribute('k', v); } }", 0},

		{"typed parameter", "a.py", py + "def f(s: Span, o: Optional[Span] = None, p: \"trace.Span\" = None, q: Span | None = None):\n    s.set_attribute('k', v)\n    o.set_attribute('k', v)\n    p.set_attribute('k', v)\n    q.update_name(v)\n", 4},
		{"current span", "a.py", py + "current = trace.get_current_span()\ncurrent.set_attribute('k', v)\n", 1},
		{"imported under other names", "a.py", "from opentelemetry.trace import get_current_span as current_span, get_tracer as tracer_of\ncurrent_span().set_attribute('k', v)\nc = current_span()\nc.set_attribute('k', v)\nt = tracer_of('x')\nwith t.start_as_current_span('x') as s:\n    s.set_attribute('k', v)\n", 3},
		{"named", "a.py", "from opentelemetry import trace\nwith self.operation('x') as span:\n    span.set_attribute('k', v)\n", 1},
		{"element", "a.py", "from lxml import etree\nspan = etree.Element('span')\nspan.set_attribute('k', v)\n", 0},
		{"element in a file with spans", "a.py", py + "span = etree.Element('span')\nspan.set_attribute('k', v)\n", 0},

		{"typed parameter", "A.java", java + "class A { void f(Span s, Optional<Span> o) { s.setAttribute(\"k\", v); s.updateName(v); } }", 2},
		{"current span", "A.java", java + "class A { void f() { Span c = Span.current(); c.setAttribute(\"k\", v); var d = Span.current(); d.setAttribute(\"k\", v); } }", 2},
		{"all names of a package", "A.java", "import io.opentelemetry.api.trace.*;\nclass A { Span current; void f() { current.setAttribute(\"k\", v); } }", 1},
		{"static import", "A.java", "import static io.opentelemetry.api.trace.Span.current;\nclass A { void f() { current().setAttribute(\"k\", v); } }", 1},
		{"qualified type", "A.java", "class A { void f(io.opentelemetry.api.trace.Span s) { s.setAttribute(\"k\", v); io.opentelemetry.api.trace.Span.current().setAttribute(\"k\", v); } }", 2},
		{"element", "A.java", java + "import org.w3c.dom.Element;\nclass A { void f(Document d) { Element span = d.createElement(\"span\"); span.setAttribute(\"k\", v); } }", 0},
	} {
		t.Run(tt.file+" "+tt.name, func(t *testing.T) {
			u := Find(parse(t, tt.file, tt.code), nil)
			require.Equal(t, tt.want, len(u.Attributes)+len(u.Renames), describe(u))
		})
	}
}

// TestHeldContexts: a span escapes with a context that is returned, stored or sent, not with one that calls get.
func TestHeldContexts(t *testing.T) {
	for _, tt := range []struct {
		name, file, code string
		want             bool
	}{
		{"returned", "a.ts", "return trace.setSpan(context.active(), span);", true},
		{"returned by a variable", "a.ts", "let ctx = trace.setSpan(context.active(), span); ctx = ctx.setValue(KEY, 1); return ctx;", true},
		{"stored", "a.ts", "request.context = trace.setSpan(context.active(), span);", true},
		{"active for a callback", "a.ts", "return context.with(trace.setSpan(context.active(), span), () => work());", false},
		{"active by a variable", "a.ts", "const ctx = trace.setSpan(context.active(), span); return context.with(ctx, work);", false},
		{"ended by the context", "a.ts", "return context.with(trace.setSpan(context.active(), span), () => trace.getActiveSpan().end());", true},
		{"parent of a span", "a.ts", "return tracer.startActiveSpan('y', {}, trace.setSpan(context.active(), span), work);", false},
		{"returned", "a.py", "return trace.set_span_in_context(span)", true},
		{"returned with another value", "a.py", "ctx = trace.set_span_in_context(span)\n    return ctx, 1", true},
		{"token", "a.py", "self.token = context.attach(trace.set_span_in_context(span))", true},
		{"parent of a span", "a.py", "return tracer.start_span('y', context=trace.set_span_in_context(span))", false},
		{"active", "a.py", "with trace.use_span(span):\n        return work()", false},
		{"returned", "A.java", "return Context.current().with(span);", true},
		{"returned with another value", "A.java", "return Context.current().with(span).with(KEY, 1);", true},
		{"returned, by the span", "A.java", "return span.storeInContext(Context.current());", true},
		{"ended by the context", "A.java", "executor.submit(Context.current().with(span).wrap(() -> Span.current().end()));", true},
		{"scope", "A.java", "try (Scope scope = Context.current().with(span).makeCurrent()) { return work(); }", false},
		{"parent of a span", "A.java", "return tracer.spanBuilder(\"y\").setParent(Context.current().with(span)).startSpan();", false},
	} {
		t.Run(tt.file+" "+tt.name, func(t *testing.T) {
			frame := map[string]string{
				"a.ts":   "import { context, trace } from '@opentelemetry/api';\nconst tracer = trace.getTracer('q');\nfunction f() { const span = tracer.startSpan('x'); %s }",
				"a.py":   "from opentelemetry import context, trace\ntracer = trace.get_tracer('q')\ndef f():\n    span = tracer.start_span('x')\n    %s\n",
				"A.java": "import io.opentelemetry.api.trace.*;\nclass A { Object f(Tracer tracer) { Span span = tracer.spanBuilder(\"x\").startSpan(); %s } }",
			}[tt.file]
			u := Find(parse(t, tt.file, fmt.Sprintf(frame, tt.code)), nil)
			i := slices.IndexFunc(u.Spans, func(s *Span) bool { return s.Name.Text == "x" })
			require.Equal(t, tt.want, u.Spans[i].Escapes, describe(u))
		})
	}
}

// TestMetricVariables: variables that are declared as instruments, and parameters of the callbacks of observable ones.
func TestMetricVariables(t *testing.T) {
	for _, tt := range []struct{ name, file, code, want string }{
		{"callback", "a.ts", "const gauge = metrics.getMeter('x').createObservableGauge('g');\ngauge.addCallback((r) => r.observe(1, { k: v }));", "attribute metric: k = v of 'g'"},
		{"callback of several", "a.ts", "const gauge = meter.createObservableGauge('g');\nmeter.addBatchObservableCallback((r) => { r.observe(gauge, 1, { k: v }); }, [gauge]);", "attribute metric: k = v of 'g'"},
		{"another callback", "a.ts", "page.onChange((r) => r.observe(1, { k: v }));", ""},
		{"field", "a.ts", "import type { Counter } from '@opentelemetry/api';\nclass A { constructor(private readonly orders: Counter) {} f() { this.orders.add(1, { k: v }); } }", "attribute metric: k = v"},
		{"parameter", "a.ts", "import { Histogram } from '@opentelemetry/api';\nfunction f(h: Histogram<Labels>) { h.record(1, { k: v }); }", "attribute metric: k = v"},
		{"type of another library", "a.ts", "import { metrics } from '@opentelemetry/api';\nimport { Counter } from 'other';\nfunction f(c: Counter) { c.add(1, { k: v }); }", ""},
		{"parameter", "a.py", "from opentelemetry.metrics import Counter\ndef f(c: Counter):\n    c.add(1, {'k': v})\n", "attribute metric: 'k' = v"},
		{"field", "a.py", "from opentelemetry import metrics\nclass A:\n    def __init__(self, orders: metrics.Counter):\n        self.orders = orders\n    def f(self):\n        self.orders.add(1, {'k': v})\n", "attribute metric: 'k' = v"},
		{"type of another library", "a.py", "import opentelemetry\nfrom collections import Counter\ndef f(c: Counter):\n    c.add(1, {'k': v})\n", ""},
		{"callback", "A.java", "import io.opentelemetry.api.common.*;\nclass A { void f(Meter meter) { meter.gaugeBuilder(\"g\").buildWithCallback(m -> m.record(1, Attributes.of(KEY, v))); } }", `attribute metric: KEY = v of "g"`},
		{"parameter", "A.java", "import io.opentelemetry.api.metrics.LongCounter;\nclass A { void f(LongCounter c) { c.add(1, Attributes.of(KEY, v)); } }", "attribute metric: KEY = v"},
	} {
		t.Run(tt.file+" "+tt.name, func(t *testing.T) {
			got := ""
			for _, fact := range describe(Find(parse(t, tt.file, tt.code), nil)) {
				if strings.HasPrefix(fact, "attribute ") {
					got += fact
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// parse parses a file with the parser that the tests share.
func parse(t *testing.T, name, code string) *syntax.File {
	t.Helper()
	p, err := parser()
	require.NoError(t, err)
	f, err := syntax.Parse(t.Context(), p, name, syntax.LanguageOf(name), []byte(code))
	require.NoError(t, err)
	return f
}

var parser = sync.OnceValues(func() (*treesitter.Parser, error) { return treesitter.New(context.Background(), "") })
