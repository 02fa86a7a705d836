module example.com/rows

go 1.21

require (
	contrib.go.opencensus.io/exporter/ocagent v0.5.0
	go.opencensus.io v0.24.0
)
