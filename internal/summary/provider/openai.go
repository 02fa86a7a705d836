// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"

	"github.com/sashabaranov/go-openai"

	"assay/internal/summary"
)

type openAI struct {
	model  string
	chat   *openai.Client
	client *client
}

// newOpenAI uses a library of the community. OpenAI's own takes a minute and a half of
// processor time to compile, for the one operation that is used here.
func newOpenAI(base string, cfg Config) *openAI {
	c := newClient(cfg.Wrap)
	config := openai.DefaultConfig(cfg.APIKey)
	config.BaseURL, config.HTTPClient = base, c
	return &openAI{model: cfg.Model, chat: openai.NewClientWithConfig(config), client: c}
}

// Model implements summary.Provider.
func (p *openAI) Model() string { return p.model }

// CloseIdleConnections closes connections that no request uses.
func (p *openAI) CloseIdleConnections() { p.client.close() }

// Write implements summary.Provider.
func (p *openAI) Write(ctx context.Context, prompt *summary.Prompt) (string, error) {
	got, err := p.chat.CreateChatCompletion(ctx, openai.ChatCompletionRequest{
		Model: p.model,
		Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: prompt.Rules},
			{Role: openai.ChatMessageRoleUser, Content: prompt.Document},
		},
		MaxCompletionTokens: maxTokens,
	})
	if err != nil {
		return "", sdkError(ctx, err)
	}
	if len(got.Choices) == 0 {
		return "", &summary.UnusableError{What: "no choice"}
	}
	choice := &got.Choices[0]
	switch {
	case choice.Message.Refusal != "":
		return "", &summary.UnusableError{What: "a refusal"}
	case len(choice.Message.ToolCalls) > 0:
		return "", &summary.UnusableError{What: "a call of a tool"}
	}
	switch choice.FinishReason {
	case "stop", "eos", "eos_token", "end_turn", "stop_sequence", "": // not all endpoints say what OpenAI says
		return written(choice.Message.Content)
	case "length":
		return "", &summary.UnusableError{What: "an answer without its end"}
	case "content_filter":
		return "", &summary.UnusableError{What: "a filtered answer"}
	default:
		return "", &summary.UnusableError{What: "an answer that ended for another reason"}
	}
}
