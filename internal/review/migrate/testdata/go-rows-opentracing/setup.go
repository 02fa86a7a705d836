// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"io"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"
	"github.com/uber/jaeger-client-go"
	"github.com/uber/jaeger-client-go/config"
	"github.com/uber/jaeger-lib/metrics"
)

// Setup configures tracing from the environment.
func Setup() (io.Closer, error) {
	cfg, err := config.FromEnv()
	if err != nil {
		return nil, err
	}
	cfg.ServiceName = "rows"
	tracer, closer, err := cfg.NewTracer()
	if err != nil {
		return nil, err
	}
	opentracing.SetGlobalTracer(tracer)
	span := tracer.StartSpan("setup")
	ext.SpanKind.Set(span, ext.SpanKindRPCServerEnum)
	span.Finish()
	return closer, nil
}

// Global configures the global tracer.
func Global(share float64) (io.Closer, error) {
	cfg := config.Configuration{Sampler: &config.SamplerConfig{Type: "probabilistic", Param: share}}
	closer, err := cfg.InitGlobalTracer("rows")
	return closer, err
}

// Tracer makes a tracer for a command.
func Tracer(service string) (opentracing.Tracer, io.Closer, error) {
	cfg := config.Configuration{ServiceName: service, Sampler: &config.SamplerConfig{Type: "const", Param: 1}}
	return cfg.NewTracer()
}

// Must is Tracer, but panics.
func Must(service string) (tracer opentracing.Tracer, closer io.Closer) {
	var err error
	if tracer, closer, err = Tracer(service); err != nil {
		panic(err)
	}
	return
}

// Override is Setup with settings in code.
func Override(name string) (io.Closer, error) {
	cfg, err := config.FromEnv()
	if err != nil {
		return nil, err
	}
	logger := jaeger.StdLogger
	factory := metrics.NullFactory
	cfg.ServiceName = name
	cfg.Sampler.Type = jaeger.SamplerTypeConst
	cfg.Sampler.Param = 1
	cfg.Reporter.LogSpans = true
	return cfg.InitGlobalTracer("", config.Logger(logger), config.Metrics(factory))
}

// Fallback makes a tracer whose settings the environment overrides.
func Fallback(service string) (opentracing.Tracer, error) {
	settings := &config.Configuration{ServiceName: service, Sampler: &config.SamplerConfig{Type: "const", Param: 1}}
	settings.Reporter = &config.ReporterConfig{LocalAgentHostPort: "agent:6831"}
	cfg, err := settings.FromEnv()
	if err != nil {
		return nil, err
	}
	tracer, _, err := cfg.NewTracer()
	return tracer, err
}
