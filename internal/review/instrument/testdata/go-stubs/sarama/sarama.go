// SPDX-License-Identifier: Apache-2.0

// Package sarama has the part of github.com/IBM/sarama that a test program uses.
package sarama

import "context"

// RecordHeader is a header of a message.
type RecordHeader struct{ Key, Value []byte }

// ConsumerMessage is a message of a topic.
type ConsumerMessage struct {
	Headers []*RecordHeader
	Topic   string
	Value   []byte
}

// ConsumerGroupSession is a session of a group.
type ConsumerGroupSession interface {
	Context() context.Context
	MarkMessage(m *ConsumerMessage, metadata string)
}

// ConsumerGroupClaim is a claim of a partition.
type ConsumerGroupClaim interface {
	Messages() <-chan *ConsumerMessage
}
