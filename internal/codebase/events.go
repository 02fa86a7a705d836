// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/codebase/propose"
)

// The resources.
type (
	eventsData struct {
		Sessions []sessionOfRun `json:"sessions"`
		Events   []agentEvent   `json:"events"`
		Latest   int64          `json:"latestSeq"`
	}
	sessionOfRun struct {
		ID        string        `json:"id"`
		RuntimeID string        `json:"runtimeSessionId"`
		Name      string        `json:"name"`
		CreatedAt *time.Time    `json:"createdAt"`
		Usage     propose.Usage `json:"usage"`
	}
	agentEvent struct {
		Seq       int64           `json:"seq"`
		CreatedAt *time.Time      `json:"createdAt"`
		SessionID string          `json:"agentSessionId"`
		Payload   json.RawMessage `json:"payload"`
	}
	// eventPayload is the payload of an event that no model caused.
	eventPayload struct {
		Type    string `json:"type"` // phase, finding, note
		Preview string `json:"preview"`
		Bytes   int    `json:"bytes"`
	}
)

// listEvents lists events with a seq above afterSeq, in order. A run is one session; runs without a model use no tokens.
func listEvents(ctx context.Context, c *call) (any, error) {
	p := c.params()
	after := p.integer("afterSeq", -1, -1, maxOffset)
	limit := p.integer("limit", 100, 1, 500)
	if err := p.err(); err != nil {
		return nil, err
	}
	r, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	events, latest, err := c.cfg.Store.RunEvents(ctx, c.organization, r.ID, int64(after), limit)
	if err != nil {
		return nil, err
	}
	id, _ := uuid.Parse(r.ID)
	session := uuid.NewSHA1(id, []byte("session")).String()
	d := eventsData{Sessions: []sessionOfRun{}, Events: []agentEvent{}, Latest: latest}
	if !r.StartedAt.IsZero() {
		var result struct {
			Model struct {
				Usage propose.Usage `json:"usage"`
			} `json:"model"`
		}
		_ = json.Unmarshal(r.Result, &result) // there may be none yet
		d.Sessions = append(d.Sessions, sessionOfRun{ID: session, RuntimeID: r.ID, Name: r.Type, CreatedAt: moment(r.StartedAt), Usage: result.Model.Usage})
	}
	for _, e := range events {
		payload, err := payloadOf(&e)
		if err != nil {
			return nil, err
		}
		d.Events = append(d.Events, agentEvent{Seq: e.Seq, CreatedAt: moment(e.At), SessionID: session, Payload: payload})
	}
	return d, nil
}

func payloadOf(e *assay.RunEvent) (json.RawMessage, error) {
	if json.Valid(e.Payload) {
		return e.Payload, nil
	}
	return json.Marshal(eventPayload{Type: e.Name, Preview: e.Message, Bytes: len(e.Message)})
}
