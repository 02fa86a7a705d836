// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"assay/internal/summary"
)

type openAI struct {
	model  string
	chat   openai.ChatCompletionService
	client *client
}

// newOpenAI makes the one service that is used: the client with all of them reads
// the environment.
func newOpenAI(base, model, key string) *openAI {
	c := newClient()
	options := []option.RequestOption{option.WithBaseURL(base), option.WithHTTPClient(c), option.WithMaxRetries(0)}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	return &openAI{model: model, chat: openai.NewChatCompletionService(options...), client: c}
}

// Model implements summary.Provider.
func (p *openAI) Model() string { return p.model }

// CloseIdleConnections closes connections that no request uses.
func (p *openAI) CloseIdleConnections() { p.client.close() }

// Write implements summary.Provider.
func (p *openAI) Write(ctx context.Context, prompt *summary.Prompt) (string, error) {
	got, err := p.chat.New(ctx, openai.ChatCompletionNewParams{
		Model:               p.model,
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(prompt.Rules), openai.UserMessage(prompt.Document)},
		MaxCompletionTokens: openai.Int(maxTokens),
	})
	if err != nil {
		return "", sdkError(ctx, err)
	}
	if got == nil || len(got.Choices) == 0 {
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
