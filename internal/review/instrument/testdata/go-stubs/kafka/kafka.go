// SPDX-License-Identifier: Apache-2.0

// Package kafka has the part of github.com/segmentio/kafka-go that a test program uses.
package kafka

import (
	"context"
	"fmt"
	"io"
)

// Header is a header of a message.
type Header struct {
	Key   string
	Value []byte
}

// Message is a message of a topic.
type Message struct {
	Topic      string
	Key, Value []byte
	Headers    []Header
}

// ReaderConfig configures a reader.
type ReaderConfig struct {
	Brokers        []string
	Topic, GroupID string
}

// Reader reads Messages.
type Reader struct{ Messages []Message }

// NewReader returns a reader without messages.
func NewReader(ReaderConfig) *Reader { return &Reader{} }

// FetchMessage returns the next message.
func (r *Reader) FetchMessage(context.Context) (Message, error) {
	if len(r.Messages) == 0 {
		return Message{}, io.EOF
	}
	m := r.Messages[0]
	r.Messages = r.Messages[1:]
	return m, nil
}

// ReadMessage returns the next message.
func (r *Reader) ReadMessage(ctx context.Context) (Message, error) { return r.FetchMessage(ctx) }

// CommitMessages commits messages.
func (r *Reader) CommitMessages(_ context.Context, messages ...Message) error {
	for _, m := range messages {
		fmt.Println("commit", string(m.Value))
		if string(m.Value) == "last" {
			return fmt.Errorf("commit %s: closed", m.Value)
		}
	}
	return nil
}

// Close closes the reader.
func (r *Reader) Close() error { return nil }
