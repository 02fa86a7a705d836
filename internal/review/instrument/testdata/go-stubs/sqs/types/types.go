// SPDX-License-Identifier: Apache-2.0

// Package types has the part of github.com/aws/aws-sdk-go-v2/service/sqs/types that a test program uses.
package types

// MessageAttributeValue is an attribute of a message.
type MessageAttributeValue struct{ StringValue *string }

// Message is a message of a queue.
type Message struct {
	Body, ReceiptHandle *string
	MessageAttributes   map[string]MessageAttributeValue
}
