// SPDX-License-Identifier: Apache-2.0

package orders

import (
	"github.com/IBM/sarama"
)

type group struct{}

func (group) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (group) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (group) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		if err := handle(session.Context(), message.Value); err != nil {
			return err
		}
		session.MarkMessage(message, "")
	}
	return nil
}

type selecting struct{ group }

func (selecting) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			if len(message.Value) == 0 {
				break
			}
			_ = handle(session.Context(), message.Value)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}
