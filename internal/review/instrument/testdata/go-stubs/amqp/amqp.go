// SPDX-License-Identifier: Apache-2.0

// Package amqp091 has the part of github.com/rabbitmq/amqp091-go that a test program uses.
package amqp091

import "fmt"

// Table is a table of headers.
type Table map[string]any

// Queue is a queue.
type Queue struct{ Name string }

// Delivery is a message of a queue.
type Delivery struct {
	Headers              Table
	Exchange, RoutingKey string
	Body                 []byte
}

// Ack accepts a delivery.
func (d Delivery) Ack(bool) error {
	fmt.Println("ack", string(d.Body))
	return nil
}

// Nack rejects a delivery.
func (d Delivery) Nack(bool, bool) error {
	fmt.Println("nack", string(d.Body))
	return nil
}

// Channel delivers Deliveries.
type Channel struct{ Deliveries []Delivery }

// Consume returns the deliveries.
func (c *Channel) Consume(_, _ string, _, _, _, _ bool, _ Table) (<-chan Delivery, error) {
	all := make(chan Delivery, len(c.Deliveries))
	for _, d := range c.Deliveries {
		all <- d
	}
	close(all)
	return all, nil
}
