// SPDX-License-Identifier: Apache-2.0

package orders

import (
	"context"
	"os"

	"github.com/segmentio/kafka-go"
)

// Run reads orders.
func Run(ctx context.Context) error {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{os.Getenv("BROKER")}, Topic: "orders", GroupID: "orders"})
	defer r.Close()
	return Read(ctx, r)
}

// traced marks orders whose context has a value, for the output.
func traced(ctx context.Context) string {
	if ctx.Err() != nil {
		return "canceled"
	}
	return ""
}
