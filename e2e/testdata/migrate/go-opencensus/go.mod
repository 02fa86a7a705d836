module example.com/search

go 1.26.0

require (
	contrib.go.opencensus.io/exporter/ocagent v0.5.0
	go.opencensus.io v0.24.0
)
