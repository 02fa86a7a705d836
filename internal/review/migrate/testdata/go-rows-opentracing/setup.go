// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"io"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"
	"github.com/uber/jaeger-client-go/config"
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
