// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// anthropicVersion is the version of the Messages API, which every request names
// (https://docs.anthropic.com/en/api/versioning).
const anthropicVersion = "2023-06-01"

// claude sends requests of the Messages API (https://docs.anthropic.com/en/api/messages). Anthropic's own library links
// 25 packages and takes most of a minute of processor time to compile, for this one request.
type claude struct {
	model, url, key string
	client          *client
}

type (
	claudeRequest struct {
		Model     string          `json:"model"`
		MaxTokens int             `json:"max_tokens"`
		System    string          `json:"system"`
		Messages  []claudeMessage `json:"messages"`
		Tools     []claudeTool    `json:"tools,omitempty"`
	}
	claudeMessage struct {
		Role    string        `json:"role"`
		Content []claudeBlock `json:"content"`
	}
	// claudeBlock is a text, a tool_use or a tool_result.
	claudeBlock struct {
		Type      string          `json:"type"`
		Text      string          `json:"text,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
		ToolUseID string          `json:"tool_use_id,omitempty"`
		Content   string          `json:"content,omitempty"`
		IsError   bool            `json:"is_error,omitempty"`
		Cache     *claudeCache    `json:"cache_control,omitempty"`
	}
	claudeCache struct {
		Type string `json:"type"`
	}
	claudeTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"input_schema"`
	}
	claudeResponse struct {
		StopReason string        `json:"stop_reason"`
		Content    []claudeBlock `json:"content"`
		Usage      struct {
			Input      int `json:"input_tokens"`
			Output     int `json:"output_tokens"`
			CacheRead  int `json:"cache_read_input_tokens"`
			CacheWrite int `json:"cache_creation_input_tokens"`
		} `json:"usage"`
	}
)

func newAnthropic(base string, cfg Config, http *client) *claude {
	return &claude{model: cfg.Model, key: cfg.APIKey, client: http, url: strings.TrimSuffix(base, "v1/") + "v1/messages"}
}

func (p *claude) chat(ctx context.Context, r *Request) (*Reply, error) {
	request := claudeRequest{Model: p.model, MaxTokens: r.MaxTokens, System: r.System}
	for _, m := range r.Messages {
		message := claudeMessage{Role: "user"}
		if m.FromModel {
			message.Role = "assistant"
		}
		for _, result := range m.Results {
			message.Content = append(message.Content, claudeBlock{Type: "tool_result", ToolUseID: result.CallID, Content: result.Text, IsError: result.Failed})
		}
		if m.Text != "" {
			message.Content = append(message.Content, claudeBlock{Type: "text", Text: m.Text})
		}
		for _, c := range m.Calls {
			input := json.RawMessage(c.Arguments)
			if !strings.HasPrefix(c.Arguments, "{") || !json.Valid(input) {
				input = json.RawMessage("{}")
			}
			message.Content = append(message.Content, claudeBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: input})
		}
		if len(message.Content) > 0 {
			request.Messages = append(request.Messages, message)
		}
	}
	for _, t := range r.Tools {
		request.Tools = append(request.Tools, claudeTool(t))
	}
	// A conversation with tools is sent again and again: cache all of it so far.
	if n := len(request.Messages); n > 0 && len(r.Tools) > 0 {
		last := request.Messages[n-1].Content
		last[len(last)-1].Cache = &claudeCache{Type: "ephemeral"}
	}
	got, err := p.send(ctx, &request)
	if err != nil {
		return nil, err
	}
	u := got.Usage
	reply := &Reply{
		Message: Message{FromModel: true},
		Usage:   Usage{Input: u.Input + u.CacheRead + u.CacheWrite, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite},
	}
	for _, block := range got.Content {
		switch block.Type {
		case "text":
			reply.Text += block.Text
		case "tool_use":
			reply.Calls = append(reply.Calls, Call{ID: block.ID, Name: block.Name, Arguments: string(block.Input)})
		}
	}
	return reply, end(got.StopReason)
}

func (p *claude) send(ctx context.Context, r *claudeRequest) (*claudeResponse, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", anthropicVersion)
	if p.key != "" {
		req.Header.Set("X-Api-Key", p.key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var got claudeResponse
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return nil, fmt.Errorf("decode response: %w", err)
	}
	return &got, nil
}
