// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/syntax"
)

// describe lists the facts of a file, one a line.
func describe(u *Uses) []string {
	code := func(n *syntax.Node) string {
		if n == nil {
			return "-"
		}
		return strings.Join(strings.Fields(u.File.Code(n)), " ")
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, strings.TrimSpace(fmt.Sprintf(format, args...))) }
	for _, s := range u.Spans {
		flags := ""
		for _, flag := range []struct {
			name string
			set  bool
		}{{" escapes", s.Escapes}, {" ends itself", s.EndsItself}, {" records errors", s.RecordsErrors}} {
			if flag.set {
				flags += flag.name
			}
		}
		add("span %s in %q kind %q var %q ends %d errors %d%s", code(s.Name), s.Scope, s.Kind, s.Variable, len(s.Ends), len(s.Errors), flags)
	}
	for _, a := range u.Attributes {
		more := ""
		if a.Span != nil {
			more += " of " + code(a.Span.Name)
		}
		if a.Instrument != nil {
			more += " of " + code(a.Instrument.Name)
		}
		add("attribute %s: %s = %s%s", a.On, code(a.Key), code(a.Value), more)
	}
	for _, i := range u.Instruments {
		add("%s %s unit %s var %q scope %q", i.Kind, code(i.Name), code(i.Unit), i.Variable, i.Scope)
	}
	for _, l := range u.Logs {
		args := []string{}
		for _, a := range l.Args {
			args = append(args, code(a))
		}
		add("log %q %s [%s]", l.Level, code(l.Message), strings.Join(args, "; "))
	}
	for _, l := range u.LogLevels {
		add("level %s %s conditional %v", l.Level, code(l.Node), l.Conditional)
	}
	for _, r := range u.Resources {
		keys := []string{}
		for k := range r.Attributes {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		add("resource %v detectors %d environment %v opaque %v", keys, len(r.Detectors), r.FromEnvironment, r.Opaque)
	}
	for _, b := range u.Boundaries {
		add("%s %s instrumented %v", b.Kind, b.Library, b.Instrumented)
	}
	for _, i := range u.Instrumented {
		add("instruments %s", i)
	}
	return out
}

func TestGo(t *testing.T) {
	const imports = `package p
import (
	"context"
	"log/slog"
	"net/http"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)
`
	for _, tt := range []struct {
		name, code string
		want       []string
	}{
		{"span", `
var tracer = otel.Tracer("shop")
func f(ctx context.Context, id string) error {
	ctx, span := tracer.Start(ctx, "load "+id, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("a", id)))
	defer span.End()
	if err := g(ctx); err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, "x")
		return err
	}
	span.SetAttributes(attribute.Key("k").Int(1), semconv.HTTPRequestMethodKey.String("GET"), semconv.ServiceName("x"))
	span.AddEvent("e", trace.WithAttributes(attribute.Bool("b", true)))
	return nil
}`, []string{
			`span "load "+id in "shop" kind "client" var "span" ends 1 errors 2`,
			`attribute span: "a" = id of "load "+id`,
			`attribute span: attribute.Key("k") = 1 of "load "+id`,
			`attribute span: semconv.HTTPRequestMethodKey = "GET" of "load "+id`,
			`attribute span: semconv.ServiceName = "x" of "load "+id`,
			`attribute event: "b" = true of "load "+id`,
		}},
		{"a tracer in a structure, and a span that is handed on", `
type server struct { tracer trace.Tracer; other *Tracer }
func (s *server) f(ctx context.Context) {
	ctx, span := s.tracer.Start(ctx, "a")
	finish(span)
	s.other.Start(ctx, "no")
	t := time.NewTimer(1)
	t.Start(ctx, "no")
}`, []string{`span "a" in "" kind "" var "span" ends 0 errors 0 escapes`}},
		{"attributes in variables", `
func f(ctx context.Context) {
	attrs := []attribute.KeyValue{attribute.String("a", "1")}
	attrs = append(attrs, attribute.String("b", "2"))
	trace.SpanFromContext(ctx).SetAttributes(attrs...)
	set := metric.WithAttributes(attribute.String("m", "3"))
	counter.Add(ctx, 1, set)
	return attribute.String("r", "4")
}`, []string{
			`attribute span: "a" = "1"`, `attribute span: "b" = "2"`, `attribute metric: "m" = "3"`, `attribute telemetry: "r" = "4"`,
		}},
		{"instruments", `
var meter = otel.GetMeterProvider().Meter("m")
var hits, _ = meter.Int64Counter("hits", metric.WithUnit("{hit}"))
func f() {
	h, err := meter.Float64Histogram("latency")
	s.size, err = s.meter.Int64ObservableGauge("size", options...)
	hits.Add(ctx, 1, metric.WithAttributes(attribute.String("user", u)))
}`, []string{
			`attribute metric: "user" = u of "hits"`,
			`counter "hits" unit "{hit}" var "hits" scope "m"`,
			`histogram "latency" unit - var "h" scope "m"`,
			`gauge "size" unit - var "size" scope "m"`,
		}},
		{"logs", `
func f(ctx context.Context) {
	slog.InfoContext(ctx, "m", "user", u)
	s.logger.Debugf("x %s", v)
	log.WithField("k", v).Warn("w")
	zlog.Info().Str("k", v).Msg("done")
	catalog.Info("no")
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo})
}`, []string{
			`log "info" "m" ["user"; u]`, `log "debug" "x %s" [v]`, `log "warn" "w" ["k"; v]`, `log "info" "done" ["k"; v]`,
			`level debug slog.LevelDebug conditional false`,
		}},
		{"setup", `
func main() {
	res, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("x"), attribute.String("a", "b")), resource.WithProcess(), resource.WithFromEnv())
	sdktrace.NewTracerProvider(sdktrace.WithResource(res))
	sdktrace.NewTracerProvider()
	http.ListenAndServe(":80", otelhttp.NewHandler(h, "x"))
}`, []string{
			`attribute resource: semconv.ServiceName = "x"`,
			`attribute resource: "a" = "b"`,
			`resource [a service.name] detectors 1 environment true opaque false`,
			`resource [] detectors 0 environment true opaque false`,
			`http server net/http instrumented false`,
		}},
		{"a function of the project that instruments a client", `
import (
	"github.com/redis/go-redis/v9"
	"shop/internal/instrumentation"
	"shop/internal/cache"
)
func main() {
	instrumentation.Redis(redis.NewClient(nil))
	cache.New(redis.NewClient(nil))
}`, []string{
			`database client github.com/redis/go-redis instrumented true`,
			`database client github.com/redis/go-redis instrumented false`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := syntax.ParseGo("f.go", []byte(imports+tt.code))
			require.NoError(t, err)
			require.False(t, f.Broken)
			require.ElementsMatch(t, tt.want, describe(Find(f, nil)), strings.Join(describe(Find(f, nil)), "\n"))
		})
	}
}

// own are the packages of a repository whose module is "shop".
type own struct{}

func (own) Constant(string, string) (Constant, bool) { return Constant{}, false }

func (own) Wrapper(string, string, string) (Wrapper, bool) { return Wrapper{}, false }

func (own) Own(module string) (own, known bool) { return strings.HasPrefix(module, "shop/"), true }

// TestGoStarters: a function that starts a span is one of the project.
func TestGoStarters(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		packages   Packages
		want       int // spans
	}{
		{"package of the project", `import "shop/tracing"; func f() { ctx, span := tracing.StartSpan(ctx, "x"); span.End() }`, own{}, 1},
		{"function of the package", `func f() { ctx, span := startSpan(ctx, "x"); span.End() }`, own{}, 1},
		{"method", `func f(s *server) { ctx, span := s.startSpan(ctx, "x"); span.End() }`, own{}, 1},
		{"unexported method", `func f(s *server) { ctx, span := s.start(ctx, "x"); span.End() }`, own{}, 1},
		{"another verb", `import "shop/tracing"; func f() { ctx, span := tracing.CreateSpan(ctx, "x"); span.End() }`, own{}, 1},
		{"operation", `import "shop/tracing"; func f() { ctx, span := tracing.TraceQuery(ctx, "x"); span.End() }`, own{}, 1},
		{"without a name", `import "shop/tracing"; func f() { ctx, span := tracing.StartSpan(ctx); span.End() }`, own{}, 1},
		{"span of a context", `import "shop/tracing"; func f() { ctx, span := tracing.SpanFromContext(ctx); span.End() }`, own{}, 0},
		{"another package", `import "github.com/aws/smithy-go/tracing"; func f() { ctx, span := tracing.StartSpan(ctx, "x"); span.End() }`, own{}, 0},
		{"method of a type of another package", `import "example.com/other"; func f(o *other.Client) { ctx, span := o.StartSpan(ctx, "x"); span.End() }`, own{}, 0},
		{"method of a value of another package", `import "example.com/other"; func f() { o := other.New(); ctx, span := o.StartSpan(ctx, "x"); span.End() }`, own{}, 0},
		{"callback of another package", `import "example.com/other"; func f() { other.WithSpan(ctx, "x", func() {}) }`, own{}, 0},
		{"callback of the project", `import "shop/tracing"; func f() { tracing.WithSpan(ctx, "x", func() {}) }`, own{}, 1},
		{"unknown package", `import "example.com/other"; func f() { ctx, span := other.StartSpan(ctx, "x"); span.End() }`, nil, 0},
		{"unknown package, with OpenTelemetry", `import "example.com/other"; import "go.opentelemetry.io/otel/attribute"; func f() { ctx, span := other.StartSpan(ctx, "x"); span.End() }`, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := syntax.ParseGo("f.go", []byte("package p; "+tt.code))
			require.NoError(t, err)
			u := Find(f, tt.packages)
			require.Len(t, u.Spans, tt.want, describe(u))
		})
	}
}

// TestGoSpanVariables: spans by the types and values of variables, and spans that are kept by a context or a channel.
func TestGoSpanVariables(t *testing.T) {
	const imports = `package p
import ("context"; "go.opentelemetry.io/otel"; oteltrace "go.opentelemetry.io/otel/trace"; sdktrace "go.opentelemetry.io/otel/sdk/trace")
`
	for _, tt := range []struct {
		code    string
		renames int
		escapes bool
	}{
		{`func f(s oteltrace.Span) { s.SetName(x) }`, 1, false},
		{`func (p processor) OnStart(parent context.Context, s sdktrace.ReadWriteSpan) { s.SetName(x) }`, 1, false},
		{`func f() { current := oteltrace.SpanFromContext(ctx); current.SetName(x) }`, 1, false},
		{`type r struct { active oteltrace.Span }; func (r *r) f() { r.active.SetName(x) }`, 1, false},
		{`type r struct { active oteltrace.Span }; func f(o *other) { o.active.SetName(x) }`, 0, false},
		{`func f(s *Server) { s.SetName(x) }`, 0, false},
		{`func f() context.Context { _, span := otel.Tracer("t").Start(ctx, "x"); return oteltrace.ContextWithSpan(ctx, span) }`, 0, true},
		{`func f() { _, span := otel.Tracer("t").Start(ctx, "x"); s.ctx = oteltrace.ContextWithSpan(ctx, span) }`, 0, true},
		{`func f() { _, span := otel.Tracer("t").Start(ctx, "x"); c.req = r.WithContext(oteltrace.ContextWithSpan(ctx, span)) }`, 0, true},
		{`func f() { _, span := otel.Tracer("t").Start(ctx, "x"); c := oteltrace.ContextWithSpan(ctx, span); return work(c) }`, 0, false},
		{`func f() { _, span := otel.Tracer("t").Start(ctx, "x"); ch <- span }`, 0, true},
		{`func f() { ctx, span := otel.Tracer("t").Start(ctx, "x"); defer oteltrace.SpanFromContext(ctx).End(); span.AddEvent("e") }`, 0, true},
	} {
		t.Run(tt.code, func(t *testing.T) {
			f, err := syntax.ParseGo("f.go", []byte(imports+tt.code))
			require.NoError(t, err)
			require.False(t, f.Broken)
			u := Find(f, nil)
			require.Len(t, u.Renames, tt.renames)
			require.Equal(t, tt.escapes, slices.ContainsFunc(u.Spans, func(s *Span) bool { return s.Escapes }))
		})
	}
}
