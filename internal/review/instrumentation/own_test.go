// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOwnTracers: tracers and meters of the program's own are not OpenTelemetry's. Results of functions and variables
// without a type may be.
func TestOwnTracers(t *testing.T) {
	const (
		start = "tracer.start_span('x')\n"
		otel  = "import { trace } from '@opentelemetry/api';\n"
		java  = "import io.opentelemetry.api.OpenTelemetry;\n"
		use   = "void f() { tracer.spanBuilder(\"x\").startSpan(); } }"
	)
	for _, tt := range []struct {
		name, file, code string
		want             int // spans and instruments
	}{
		{"class of the file", "a.py", "class Tracer: pass\ntracer = Tracer()\n" + start, 0},
		{"with statement", "a.py", "class Tracer: pass\ntracer = Tracer()\nwith tracer.start_as_current_span('x') as span: pass\n", 0},
		{"without a variable", "a.py", "class Tracer: pass\nTracer().start_span('x')\n", 0},
		{"meter", "a.py", "class Meter: pass\nmeter = Meter()\nmeter.create_counter('x')\n", 0},
		{"relative import", "a.py", "from .ray import AppTracer\nclass A:\n    def __init__(self):\n        self.tracer = AppTracer()\n    def f(self):\n        self.tracer.start_span('x')\n", 0},
		{"relative module", "a.py", "from . import ray\ntracer = ray.Tracer()\n" + start, 0},
		{"class of a module for traces", "a.py", "from .tracing import AppTracer\ntracer = AppTracer()\n" + start, 1},
		{"type of the file", "a.py", "class Tracer: pass\ndef f(tracer: Tracer):\n    " + start, 0},
		{"class that extends OpenTelemetry's", "a.py", "from opentelemetry import trace\nclass AppTracer(trace.Tracer): pass\ntracer = AppTracer()\n" + start, 1},
		{"function of the file", "a.py", "def get_tracer(): pass\ntracer = get_tracer()\n" + start, 1},
		{"function of a relative module", "a.py", "from .tracing import get_tracer\ntracer = get_tracer()\n" + start, 1},
		{"variable of a relative module", "a.py", "from .tracing import tracer\n" + start, 1},
		{"parameter", "a.py", "def f(tracer):\n    " + start, 1},

		{"class of the file", "a.js", otel + "class Tracer {}\nconst tracer = new Tracer();\ntracer.startSpan('x');", 0},
		{"callback", "a.js", otel + "class Tracer {}\nconst tracer = new Tracer();\ntracer.startActiveSpan('x', (span) => f(span));", 0},
		{"relative import", "a.js", otel + "import Ray from './ray.js';\nconst tracer = new Ray();\ntracer.startSpan('x');", 0},
		{"required", "a.js", "const { Ray } = require('./ray');\nconst tracer = new Ray();\ntracer.startSpan('x');", 0},
		{"field", "a.js", otel + "import Ray from './ray.js';\nclass A { constructor() { this.tracer = new Ray(); } f() { this.tracer.startSpan('x'); } }", 0},
		{"meter", "a.js", otel + "class Meter {}\nconst meter = new Meter();\nmeter.createCounter('x');", 0},
		{"type of the file", "a.ts", otel + "class Tracer {}\nfunction f(tracer: Tracer) { tracer.startSpan('x'); }", 0},
		{"variable of a relative module", "a.ts", "import { tracer } from './tracing';\ntracer.startSpan('x');", 1},
		{"function of a relative module", "a.ts", "import { getTracer } from './tracing';\nconst tracer = getTracer();\ntracer.startSpan('x');", 1},
		{"parameter", "a.js", otel + "function f(tracer) { tracer.startSpan('x'); }", 1},

		{"type of the file", "A.java", java + "class A { static class Tracer {} Tracer tracer = new Tracer(); " + use, 0},
		{"type of the package", "A.java", java + "class A { AppTracer tracer; " + use, 0},
		{"imported type", "A.java", java + "import acme.AppTracer;\nclass A { AppTracer tracer; " + use, 0},
		{"new", "A.java", java + "class A { static class Ray {} void f() { var tracer = new Ray(); tracer.spanBuilder(\"x\").startSpan(); } }", 0},
		{"meter", "A.java", java + "class A { static class Meter {} Meter meter; void f() { meter.counterBuilder(\"x\").build(); } }", 0},
		{"type of OpenTelemetry", "A.java", "import io.opentelemetry.api.trace.Tracer;\nclass A { Tracer tracer; " + use, 1},
		{"all names of a package", "A.java", "import io.opentelemetry.api.trace.*;\nclass A { Tracer tracer; " + use, 1},
		{"another type of OpenTelemetry", "A.java", "import io.opentelemetry.api.incubator.trace.ExtendedTracer;\nclass A { ExtendedTracer tracer; " + use, 1},
		{"method of a class of the project", "A.java", java + "class A { Telemetry telemetry; void f() { telemetry.getTracer().spanBuilder(\"x\").startSpan(); } }", 1},
	} {
		t.Run(tt.file+" "+tt.name, func(t *testing.T) {
			u := Find(parse(t, tt.file, tt.code), nil)
			require.Equal(t, tt.want, len(u.Spans)+len(u.Instruments), describe(u))
		})
	}
}

// TestManyOwnTracers checks that the work for tracers of functions and classes of a file is linear in their uses: a
// file that takes more is not reviewed.
func TestManyOwnTracers(t *testing.T) {
	const uses = 1000
	repeat := func(format string) string {
		var b strings.Builder
		for i := range uses {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, code := range map[string]string{
		"a.js": "const { trace } = require('@opentelemetry/api');\nfunction getTracer() { return trace.getTracer('x'); }\nconst tracer = getTracer();\n" +
			repeat("exports.f%d = async function (id) {\n  const span = tracer.startSpan('f');\n  span.setAttribute('id', id);\n  span.end();\n};\n"),
		"a.py": "from opentelemetry import trace\n\n\ndef get_tracer():\n    return trace.get_tracer('x')\n\n\ntracer = get_tracer()\n\n" +
			repeat("def f%d(id):\n    span = tracer.start_span('f')\n    span.end()\n\n\n"),
		"A.java": "import io.opentelemetry.api.trace.*;\nclass A {\n  Tracer tracer;\n" +
			repeat("  void f%d() {\n    Span span = tracer.spanBuilder(\"f\").startSpan();\n    span.end();\n  }\n") + "}\n",
	} {
		u := Find(parse(t, name, code), nil)
		require.Len(t, u.Spans, uses, name)
		require.False(t, u.File.Exhausted(), name)
	}
}
