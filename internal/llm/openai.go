// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"context"

	"github.com/sashabaranov/go-openai"
)

type openAI struct {
	model  string
	client *openai.Client
}

// newOpenAI uses a library of the community. OpenAI's own takes a minute and a half of processor time to compile, for
// the one operation that is used here.
func newOpenAI(base string, cfg Config, http *client) *openAI {
	config := openai.DefaultConfig(cfg.APIKey)
	config.BaseURL, config.HTTPClient = base, http
	return &openAI{model: cfg.Model, client: openai.NewClientWithConfig(config)}
}

func (p *openAI) chat(ctx context.Context, r *Request) (*Reply, error) {
	request := openai.ChatCompletionRequest{
		Model: p.model, MaxCompletionTokens: r.MaxTokens,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: r.System}},
	}
	for _, m := range r.Messages {
		for _, result := range m.Results {
			request.Messages = append(request.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: result.CallID, Content: result.Text})
		}
		message := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: m.Text}
		if m.FromModel {
			message.Role = openai.ChatMessageRoleAssistant
		}
		for _, c := range m.Calls {
			message.ToolCalls = append(message.ToolCalls, openai.ToolCall{ID: c.ID, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{Name: c.Name, Arguments: c.Arguments}})
		}
		if message.Content != "" || len(message.ToolCalls) > 0 {
			request.Messages = append(request.Messages, message)
		}
	}
	for _, t := range r.Tools {
		request.Tools = append(request.Tools, openai.Tool{
			Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: t.Schema},
		})
	}
	got, err := p.client.CreateChatCompletion(ctx, request)
	if err != nil {
		return nil, err
	}
	reply := &Reply{Usage: Usage{Input: got.Usage.PromptTokens, Output: got.Usage.CompletionTokens}}
	if d := got.Usage.PromptTokensDetails; d != nil {
		reply.Usage.CacheRead = d.CachedTokens
	}
	if d := got.Usage.CompletionTokensDetails; d != nil {
		reply.Usage.Reasoning = d.ReasoningTokens
	}
	if len(got.Choices) == 0 {
		return reply, &UnusableError{What: "no choice"}
	}
	choice := &got.Choices[0]
	if choice.Message.Refusal != "" {
		return reply, &UnusableError{What: "a refusal"}
	}
	reply.Message = Message{FromModel: true, Text: choice.Message.Content}
	for _, c := range choice.Message.ToolCalls {
		reply.Calls = append(reply.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return reply, end(string(choice.FinishReason))
}
