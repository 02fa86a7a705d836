module example.com/rows

go 1.24

require (
	github.com/DataDog/dd-trace-go/v2 v2.12.0
	go.opentelemetry.io/otel/trace v1.47.0
)
