module example.com/checkout/v2

go 1.26.0

require (
	google.golang.org/grpc v1.76.0
)
