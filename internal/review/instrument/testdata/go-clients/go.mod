module example.com/clients

go 1.26.0

require (
	github.com/aws/aws-sdk-go-v2 v1.42.0
	github.com/aws/aws-sdk-go-v2/config v1.32.0
	github.com/twmb/franz-go v1.22.3
	google.golang.org/grpc v1.83.2
)
