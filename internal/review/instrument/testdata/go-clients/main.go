// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var (
	short = &http.Client{Timeout: time.Second}
	long  = http.Client{
		CheckRedirect: nil,
		Timeout:       time.Minute,
	}
	plain  http.Client
	pooled = &http.Client{Transport: &http.Transport{MaxIdleConns: 2}}
	empty  = &http.Client{}
	unset  = &http.Client{Transport: nil, Timeout: time.Second}
)

func load(ctx context.Context) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx, config.WithRegion("eu-central-1"))
}

func dial(target string, options []grpc.DialOption) (*grpc.ClientConn, *grpc.ClientConn, error) {
	first, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	second, err := grpc.NewClient(target, options...)
	return first, second, err
}

func consumer() (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers("localhost:9092"),
		kgo.ConsumeTopics("orders"),
	)
}

func records(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if err := send(ctx, string(r.Value)); err != nil {
				fmt.Println(err)
			}
		})
	}
}

func fetch(w http.ResponseWriter, r *http.Request) {
	answer, err := http.Get("http://localhost:8081/items")
	if err != nil {
		http.Error(w, "unavailable", http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(w, answer.Body)
}

func send(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func probe() error {
	answer, err := http.Head("http://localhost:8080")
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", fetch)
	go func() { fmt.Println(probe()) }()
	fmt.Println(http.ListenAndServe(":8080", mux))
}
