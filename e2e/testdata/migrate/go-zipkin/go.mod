module example.com/stock

go 1.26.0

require github.com/openzipkin/zipkin-go v0.4.3
