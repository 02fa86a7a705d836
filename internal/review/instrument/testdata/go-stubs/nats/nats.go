// SPDX-License-Identifier: Apache-2.0

// Package nats has the part of github.com/nats-io/nats.go that a test program uses.
package nats

// Header has the headers of a message.
type Header map[string][]string

// Get returns a header.
func (h Header) Get(key string) string {
	if len(h[key]) == 0 {
		return ""
	}
	return h[key][0]
}

// Subscription is a subscription of a subject.
type Subscription struct{ Subject string }

// Msg is a message.
type Msg struct {
	Header Header
	Data   []byte
	Sub    *Subscription
}

// MsgHandler processes a message.
type MsgHandler func(*Msg)

// Conn gives subscribers Messages.
type Conn struct{ Messages []*Msg }

// Subscribe gives a callback the messages.
func (c *Conn) Subscribe(subject string, callback MsgHandler) (*Subscription, error) {
	s := &Subscription{Subject: subject}
	for _, m := range c.Messages {
		m.Sub = s
		callback(m)
	}
	return s, nil
}

// QueueSubscribe gives a callback the messages.
func (c *Conn) QueueSubscribe(subject, _ string, callback MsgHandler) (*Subscription, error) {
	return c.Subscribe(subject, callback)
}
