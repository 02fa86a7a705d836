// SPDX-License-Identifier: Apache-2.0

package orders

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"
)

const sender = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

type session struct{ ctx context.Context }

func (s session) Context() context.Context { return s.ctx }
func (session) MarkMessage(m *sarama.ConsumerMessage, _ string) {
	fmt.Println("mark", string(m.Value))
}

type claim []string

func (c claim) Messages() <-chan *sarama.ConsumerMessage {
	all := make(chan *sarama.ConsumerMessage, len(c))
	for _, value := range c {
		all <- &sarama.ConsumerMessage{Topic: "sarama", Value: []byte(value), Headers: []*sarama.RecordHeader{{Key: []byte("traceparent"), Value: []byte(sender)}}}
	}
	close(all)
	return all
}

type repeated struct {
	all <-chan *sarama.ConsumerMessage
}

func (r repeated) Messages() <-chan *sarama.ConsumerMessage { return r.all }

// Run gives each consumer messages.
func Run(ctx context.Context) error {
	headers := []kafka.Header{{Key: "traceparent", Value: []byte(sender)}}
	reader := kafka.NewReader(kafka.ReaderConfig{})
	for _, m := range [][2]string{{"", "old"}, {"a", "good"}, {"ignore", "bad"}, {"stop", "last"}} {
		reader.Messages = append(reader.Messages, kafka.Message{Topic: "kafka", Key: []byte(m[0]), Value: []byte(m[1]), Headers: headers})
	}
	fmt.Println("kafka:", Read(ctx, reader))
	reader.Messages = []kafka.Message{{Topic: "letters", Value: []byte("good")}, {Topic: "letters", Value: []byte("bad")}, {Topic: "letters", Value: []byte("unread")}}
	ReadLetters(reader)

	fmt.Println("sarama:", group{}.ConsumeClaim(session{ctx}, claim{"good", "bad"}))
	fmt.Println("select:", selecting{}.ConsumeClaim(session{ctx}, repeated{claim{"", "good"}.Messages()}))

	channel := &amqp.Channel{Deliveries: []amqp.Delivery{{Body: []byte("good"), Headers: amqp.Table{"traceparent": sender, "count": 1}}, {Body: []byte("bad")}}}
	fmt.Println("amqp:", Deliver(channel, amqp.Queue{Name: "amqp"}))

	channel.Deliveries = []amqp.Delivery{{RoutingKey: "tasks", Body: []byte("good")}, {Exchange: "events", RoutingKey: "order.4711", Body: []byte("bad")}}
	deliveries, err := channel.Consume("", "", false, false, false, false, nil)
	Work(ctx, deliveries)
	fmt.Println("work:", err)

	messages := []*nats.Msg{{Data: []byte("good"), Header: nats.Header{"traceparent": {sender}}}, {Data: []byte("bad")}}
	fmt.Println("nats:", Subscribe(ctx, &nats.Conn{Messages: messages}))

	text := func(s string) *string { return &s }
	client := &sqs.Client{Messages: []types.Message{
		{Body: text("good"), ReceiptHandle: text("1"), MessageAttributes: map[string]types.MessageAttributeValue{"traceparent": {StringValue: text(sender)}, "binary": {}}},
		{Body: text("bad"), ReceiptHandle: text("2")},
	}}
	fmt.Println("sqs:", Poll(ctx, client, "https://sqs.example.com/1/queue"))
	return nil
}

// traced reports the state of a context for the output.
func traced(ctx context.Context) string { return fmt.Sprint(ctx.Err()) }
