// SPDX-License-Identifier: Apache-2.0

package orders

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Deliver processes the deliveries of a queue.
func Deliver(ch *amqp.Channel, queue amqp.Queue) error {
	deliveries, err := ch.Consume(queue.Name, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	done := make(chan bool)
	go func() {
		for d := range deliveries {
			if err := handle(context.Background(), d.Body); err != nil {
				fmt.Println("reject:", err)
				_ = d.Nack(false, false)
				continue
			}
			_ = d.Ack(false)
		}
		close(done)
	}()
	<-done
	return nil
}

// Work processes deliveries that another function asked for.
func Work(ctx context.Context, deliveries <-chan amqp.Delivery) {
	for d := range deliveries {
		if err := handle(ctx, d.Body); err != nil {
			fmt.Println("work:", err)
		}
	}
}

// Subscribe processes messages of a subject.
func Subscribe(ctx context.Context, nc *nats.Conn) error {
	if _, err := nc.Subscribe("orders.*", func(m *nats.Msg) {
		if err := handle(ctx, m.Data); err != nil {
			fmt.Println("message:", err)
			return
		}
		fmt.Println("message done")
	}); err != nil {
		return err
	}
	_, err := nc.QueueSubscribe("returns", "workers", returned)
	return err
}

func returned(m *nats.Msg) {
	fmt.Println("returned", string(m.Data))
}

// Poll receives messages of SQS once.
func Poll(ctx context.Context, client *sqs.Client, url string) error {
	out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: aws.String(url), MaxNumberOfMessages: 10})
	if err != nil {
		return err
	}
	for _, m := range out.Messages {
		if err := handle(ctx, []byte(*m.Body)); err != nil {
			return fmt.Errorf("message: %w", err)
		}
		if _, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
			return err
		}
	}
	return nil
}
