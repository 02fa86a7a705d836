// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The kinds of providers.
const (
	OpenAI    = "openai"    // any endpoint that speaks OpenAI's chat completions
	Anthropic = "anthropic" // any endpoint that speaks Anthropic's messages
)

// Config configures a Client.
type Config struct {
	Kind string // OpenAI or Anthropic
	// URL of the API, such as https://api.openai.com/v1 or http://localhost:11434/v1. The URL of the operation is
	// accepted as well, and /v1 is added to a URL without a path. Default: the provider's own.
	URL   string
	Model string
	// APIKey is sent with every request and never shown. Local models need none.
	APIKey string
	// Wrap wraps the transport for traces and metrics. nil: the transport is not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client is the client of a language model. It is safe for concurrent use.
type Client struct {
	model string
	http  *client
	api   interface {
		chat(ctx context.Context, r *Request) (*Reply, error)
	}
}

// Request is a conversation that the model is to continue.
type Request struct {
	System    string
	Messages  []Message
	Tools     []Tool // that the model may call
	MaxTokens int    // of the reply, including the reasoning before it
}

// Message is a message of a conversation.
type Message struct {
	FromModel bool
	Text      string
	Calls     []Call   // of the model
	Results   []Result // for the model, of all calls of the message before
}

// Tool is a function that a model may call.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage // JSON Schema of the arguments, an object
}

// Call is a call of a tool. All of it is the model's: it may name unknown tools and have any arguments.
type Call struct {
	ID, Name  string
	Arguments string // JSON, unless the model errs
}

// Result is the result of a call.
type Result struct {
	CallID, Text string
	Failed       bool
}

// Reply is the reply of the model. A message without text and calls is possible.
type Reply struct {
	Message
	Usage Usage
}

// Usage counts tokens. Input includes tokens read from and written to a cache, Output the reasoning.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning int
}

// New returns the client that c describes. The endpoint and the key come from c only. From the environment New uses
// only the proxy settings.
func New(c Config) (*Client, error) {
	if c.Model == "" {
		return nil, errors.New("language model: no model is given")
	}
	if c.APIKey != strings.TrimSpace(c.APIKey) || strings.ContainsFunc(c.APIKey, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("language model: the API key holds spaces around it, line ends or other characters that no header can have")
	}
	m := &Client{model: c.Model, http: newClient(c.Wrap)}
	switch c.Kind {
	case OpenAI:
		base, err := baseURL(c.URL, "https://api.openai.com/v1", "/chat/completions")
		if err != nil {
			return nil, err
		}
		m.api = newOpenAI(base, c, m.http)
	case Anthropic:
		base, err := baseURL(c.URL, "https://api.anthropic.com/v1", "/messages")
		if err != nil {
			return nil, err
		}
		m.api = newAnthropic(base, c, m.http)
	default:
		return nil, fmt.Errorf("language model: unknown kind of provider %q: it is %s or %s", c.Kind, OpenAI, Anthropic)
	}
	return m, nil
}

// Model returns the name of the model.
func (c *Client) Model() string { return c.model }

// CloseIdleConnections closes connections that no request uses.
func (c *Client) CloseIdleConnections() { c.http.close() }

// Chat asks the model once. A response that is no success is a *StatusError, an exchange without a whole response a
// *BrokenError, an incomplete or refused reply an *UnusableError, with which Chat returns a Reply for its Usage.
func (c *Client) Chat(ctx context.Context, r *Request) (*Reply, error) {
	reply, err := c.api.chat(ctx, r)
	if err != nil {
		return reply, clientError(ctx, err)
	}
	if len(reply.Calls) > 0 && len(r.Tools) == 0 {
		return reply, &UnusableError{What: "a call of a tool"}
	}
	return reply, nil
}

// maxWritten limits the tokens of a text, including the reasoning before it.
const maxWritten = 4096

// Write asks the model for a text about a document. It returns the errors of Chat. A reply without a text is an
// *UnusableError.
func (c *Client) Write(ctx context.Context, system, document string) (string, error) {
	reply, err := c.Chat(ctx, &Request{System: system, Messages: []Message{{Text: document}}, MaxTokens: maxWritten})
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(reply.Text) == "" {
		return "", &UnusableError{What: "no text"}
	}
	return reply.Text, nil
}

// baseURL returns the URL below which a provider's operations are, with a slash at its end.
func baseURL(given, standard, operation string) (string, error) {
	given = cmp.Or(given, standard)
	u, err := url.Parse(given)
	switch {
	case err != nil: // which may show a password
		return "", errors.New("language model: the provider's URL cannot be parsed")
	case !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "":
		return "", errors.New("language model: the provider's URL is not of the form https://HOST/PATH")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("language model: the provider's URL has a user, a query or a fragment; the API key is given separately")
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimRight(strings.TrimSuffix(path, operation), "/")
	path = cmp.Or(path, "/v1")
	u.Path, u.RawPath = path+"/", ""
	return u.String(), nil
}

// end returns the error for the reason with which a provider ends a reply, or nil for a complete one. Not all endpoints
// use the words of the provider whose API they speak.
func end(reason string) error {
	switch reason {
	case "stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "tool_use", "":
		return nil
	case "length", "max_tokens", "model_context_window_exceeded":
		return &UnusableError{What: "an answer without its end"}
	case "refusal":
		return &UnusableError{What: "a refusal"}
	case "content_filter":
		return &UnusableError{What: "a filtered answer"}
	default:
		return &UnusableError{What: "an answer that ended for another reason"}
	}
}
