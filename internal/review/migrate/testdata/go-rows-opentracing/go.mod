module example.com/rows

go 1.21

require github.com/opentracing/opentracing-go v1.2.0

require github.com/uber/jaeger-client-go v2.30.0+incompatible
