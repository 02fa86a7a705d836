// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"assay/internal/summary"
)

type claude struct {
	model    string
	messages anthropic.MessageService
	client   *client
}

// newAnthropic makes the one service that is used: the client with all of them
// reads the environment, and profiles in the home directory. Its spans are off,
// which the environment would decide as well.
func newAnthropic(base string, cfg Config) *claude {
	c := newClient(cfg.Wrap)
	options := []option.RequestOption{
		// The SDK has the version in its paths.
		option.WithBaseURL(strings.TrimSuffix(base, "v1/")),
		option.WithHTTPClient(c), option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
	}
	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	return &claude{model: cfg.Model, messages: anthropic.NewMessageService(options...), client: c}
}

// Model implements summary.Provider.
func (p *claude) Model() string { return p.model }

// CloseIdleConnections closes connections that no request uses.
func (p *claude) CloseIdleConnections() { p.client.close() }

// Write implements summary.Provider.
func (p *claude) Write(ctx context.Context, prompt *summary.Prompt) (string, error) {
	got, err := p.messages.New(ctx, anthropic.MessageNewParams{
		Model:     p.model,
		MaxTokens: maxTokens,
		System:    []anthropic.TextBlockParam{{Text: prompt.Rules}},
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt.Document))},
	})
	if err != nil {
		return "", sdkError(ctx, err)
	}
	if got == nil {
		return "", &summary.UnusableError{What: "no message"}
	}
	switch got.StopReason {
	case anthropic.StopReasonEndTurn, anthropic.StopReasonStopSequence, "":
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return "", &summary.UnusableError{What: "an answer without its end"}
	case anthropic.StopReasonRefusal:
		return "", &summary.UnusableError{What: "a refusal"}
	case anthropic.StopReasonToolUse, anthropic.StopReasonPauseTurn:
		return "", &summary.UnusableError{What: "a call of a tool"}
	default:
		return "", &summary.UnusableError{What: "an answer that ended for another reason"}
	}
	var text strings.Builder
	for _, block := range got.Content {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	return written(text.String())
}
