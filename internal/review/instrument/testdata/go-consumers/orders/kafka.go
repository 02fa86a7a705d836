// SPDX-License-Identifier: Apache-2.0

package orders

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
)

// Read reads orders until there are no more.
func Read(ctx context.Context, r *kafka.Reader) error {
	for {
		m, err := r.FetchMessage(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fetch message: %w", err)
		}

		// Messages without a key are of an older version.
		if len(m.Key) == 0 {
			fmt.Println("skip", string(m.Value))
			continue
		}
		switch string(m.Key) {
		case "ignore":
			break
		case "stop":
			return r.CommitMessages(ctx, m)
		}
		if err := handle(ctx, m.Value); err != nil {
			fmt.Println("handle:", err)
		}
		for i := range 3 {
			if i == 1 {
				continue
			}
			if err := r.CommitMessages(ctx, m); err == nil {
				break
			}
		}
	}
}

// ReadLetters reads the messages that failed.
func ReadLetters(r *kafka.Reader) {
	for {
		letter, err := r.ReadMessage(context.Background())
		if err != nil {
			break
		}
		if err := handle(context.Background(), letter.Value); err != nil {
			fmt.Println("handle letter:", err)
			break
		}
	} // until one fails
}

func handle(ctx context.Context, value []byte) error {
	if string(value) == "bad" {
		return errors.New("bad order")
	}
	fmt.Println("order", string(value), traced(ctx))
	return nil
}
