module example.com/connect

go 1.26.0

require connectrpc.com/connect v1.21.1
