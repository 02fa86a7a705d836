module example.com/tested

go 1.26.0

require google.golang.org/grpc v1.83.2
