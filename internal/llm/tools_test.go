// SPDX-License-Identifier: Apache-2.0

package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/llm"
	"assay/internal/llm/llmtest"
)

// TestTools has a conversation with calls of tools, in the format of each provider.
func TestTools(t *testing.T) {
	tools := []llm.Tool{{Name: "read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object"}`)}}
	for _, k := range kinds {
		t.Run(k.kind, func(t *testing.T) {
			model := llmtest.New(t)
			model.Script(
				llmtest.Reply{Text: "I read.", Calls: []llmtest.Call{{Name: "read", Arguments: `{"file":"a.go"}`}, {Name: "other", Arguments: `{"file":`}}, Input: 7, Output: 5},
				llmtest.Reply{Text: "Done."},
				llmtest.Reply{Text: "half", Finish: "length", Input: 3, Output: 4},
			)
			c := open(t, llm.Config{Kind: k.kind, URL: model.URL, Model: "m", APIKey: key})
			r := &llm.Request{System: system, Messages: []llm.Message{{Text: document}}, Tools: tools, MaxTokens: 100}
			reply, err := c.Chat(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, "I read.", reply.Text)
			require.Equal(t, llm.Usage{Input: 7, Output: 5}, reply.Usage)
			require.Len(t, reply.Calls, 2)
			require.Equal(t, "read", reply.Calls[0].Name)
			require.JSONEq(t, `{"file":"a.go"}`, reply.Calls[0].Arguments)
			require.Contains(t, reply.Calls[1].Arguments, "file")

			results := []llm.Result{{CallID: reply.Calls[0].ID, Text: "package a"}, {CallID: reply.Calls[1].ID, Text: "no such tool", Failed: true}}
			r.Messages = append(r.Messages, reply.Message, llm.Message{Results: results}, llm.Message{FromModel: true}) // empty ones are left out
			reply, err = c.Chat(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, "Done.", reply.Text)
			require.Empty(t, reply.Calls)
			asked := model.Requests()[1]
			require.Equal(t, []string{"read"}, asked.Tools)
			require.Equal(t, []string{"package a", "no such tool"}, asked.Results)
			require.Equal(t, system, asked.System)
			require.Equal(t, 1, strings.Count(asked.Body, `"role":"assistant"`))

			reply, err = c.Chat(t.Context(), r)
			require.ErrorAs(t, err, new(*llm.UnusableError))
			require.Equal(t, llm.Usage{Input: 3, Output: 4}, reply.Usage, "what cannot be used costs as well")
		})
	}
}
