// SPDX-License-Identifier: Apache-2.0

// Package sqs has the part of github.com/aws/aws-sdk-go-v2/service/sqs that a test program uses.
package sqs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// ReceiveMessageInput is a request for messages.
type ReceiveMessageInput struct {
	QueueUrl            *string
	MaxNumberOfMessages int32
}

// ReceiveMessageOutput has messages.
type ReceiveMessageOutput struct{ Messages []types.Message }

// DeleteMessageInput is a request to delete a message.
type DeleteMessageInput struct{ QueueUrl, ReceiptHandle *string }

// DeleteMessageOutput is the response.
type DeleteMessageOutput struct{}

// Client returns Messages.
type Client struct{ Messages []types.Message }

// ReceiveMessage returns the messages.
func (c *Client) ReceiveMessage(context.Context, *ReceiveMessageInput) (*ReceiveMessageOutput, error) {
	return &ReceiveMessageOutput{Messages: c.Messages}, nil
}

// DeleteMessage deletes a message.
func (c *Client) DeleteMessage(_ context.Context, in *DeleteMessageInput) (*DeleteMessageOutput, error) {
	fmt.Println("delete", *in.ReceiptHandle)
	return &DeleteMessageOutput{}, nil
}
