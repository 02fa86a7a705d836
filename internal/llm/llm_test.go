// SPDX-License-Identifier: Apache-2.0

package llm_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/llm"
	"assay/internal/llm/llmtest"
)

const key = "sk-test-0123456789abcdefghij"

const (
	system   = "Explain <this>."
	document = "{\n \"service\": {\"name\": \"checkout\"}\n}"
)

// kinds are the providers, the path of their operation, and what the header says of
// a key.
var kinds = []struct {
	kind, path, header, value string
}{
	{llm.OpenAI, "/v1/chat/completions", "Authorization", "Bearer " + key},
	{llm.Anthropic, "/v1/messages", "X-Api-Key", key},
}

// open returns a client whose connections are closed when the test ends.
func open(t *testing.T, c llm.Config) *llm.Client {
	t.Helper()
	p, err := llm.New(c)
	require.NoError(t, err)
	t.Cleanup(p.CloseIdleConnections)
	return p
}

func TestWrite(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.kind, func(t *testing.T) {
			model := llmtest.New(t)
			model.Script(llmtest.Reply{Text: "## Why\n\n\"because\" ä"})
			p := open(t, llm.Config{Kind: k.kind, URL: model.URL, Model: "some/model:7b", APIKey: key})
			require.Equal(t, "some/model:7b", p.Model())
			text, err := p.Write(t.Context(), system, document)
			require.NoError(t, err)
			require.Equal(t, "## Why\n\n\"because\" ä", text)

			asked := model.Requests()
			require.Len(t, asked, 1)
			require.Equal(t, k.path, asked[0].Path)
			require.Equal(t, "some/model:7b", asked[0].Model)
			require.Equal(t, system, asked[0].System)
			require.Equal(t, document, asked[0].User)
			require.Equal(t, []string{k.value}, asked[0].Header[k.header])
			require.NotContains(t, asked[0].Body, key)
		})
	}
}

// TestEnvironment: nothing that the SDKs' clients take from the environment comes
// along.
func TestEnvironment(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the environment said whom to ask")
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(elsewhere.Close)
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "env-secret", "OPENAI_ADMIN_KEY": "env-secret", "OPENAI_ORG_ID": "env-org", "OPENAI_PROJECT_ID": "env-project",
		"OPENAI_BASE_URL": elsewhere.URL, "OPENAI_CUSTOM_HEADERS": "X-Env: env-secret", "OPENAI_WEBHOOK_SECRET": "env-secret",
		"ANTHROPIC_API_KEY": "env-secret", "ANTHROPIC_AUTH_TOKEN": "env-secret", "ANTHROPIC_BASE_URL": elsewhere.URL, "ANTHROPIC_PROFILE": "env-profile",
		"ANTHROPIC_CUSTOM_HEADERS": "X-Env: env-secret", "ANTHROPIC_WEBHOOK_SIGNING_KEY": "env-secret",
		"ANTHROPIC_FEDERATION_RULE_ID": "env", "ANTHROPIC_ORGANIZATION_ID": "env", "ANTHROPIC_IDENTITY_TOKEN": "env-secret",
		"ANTHROPIC_OPEN_TELEMETRY": "true", "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content",
	} {
		t.Setenv(name, value)
	}
	for _, k := range kinds {
		model := llmtest.New(t)
		_, err := open(t, llm.Config{Kind: k.kind, URL: model.URL, Model: "m"}).Write(t.Context(), system, document)
		require.NoError(t, err)
		asked := model.Requests()
		require.Len(t, asked, 1)
		for name, values := range asked[0].Header {
			require.NotContains(t, strings.Join(values, " "), "env", name)
		}
		for _, name := range []string{"Authorization", "X-Api-Key", "Openai-Organization", "Openai-Project", "X-Env", "Traceparent"} {
			require.NotContains(t, asked[0].Header, name)
		}
	}
}

// TestFailures: what goes wrong says what it is, once, and quotes nothing.
func TestFailures(t *testing.T) {
	other := llmtest.New(t)
	status := func(code int, after time.Duration) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			var e *llm.StatusError
			require.ErrorAs(t, err, &e)
			require.Equal(t, &llm.StatusError{Status: code, RetryAfter: after}, e)
		}
	}
	broken := func(t *testing.T, err error) {
		var e *llm.BrokenError
		require.ErrorAs(t, err, &e)
	}
	unusable := func(t *testing.T, err error) {
		var e *llm.UnusableError
		require.ErrorAs(t, err, &e)
	}
	timeout := func(t *testing.T, err error) { require.ErrorIs(t, err, context.DeadlineExceeded) }
	for name, tt := range map[string]struct {
		reply llmtest.Reply
		short bool // the deadline
		check func(*testing.T, error)
	}{
		"wrong key":         {llmtest.Reply{Status: 401, Raw: `{"error": {"message": "the key ` + key + ` is wrong, you asked: Explain"}}`}, false, status(401, 0)},
		"unknown model":     {llmtest.Reply{Status: 404}, false, status(404, 0)},
		"too many":          {llmtest.Reply{Status: 429, RetryAfter: 7 * time.Second}, false, status(429, 7*time.Second)},
		"too many for long": {llmtest.Reply{Status: 429, RetryAfter: 1e6 * time.Second}, false, status(429, time.Hour)},
		"error":             {llmtest.Reply{Status: 500, Raw: "<html>" + key}, false, status(500, 0)},
		"overloaded":        {llmtest.Reply{Status: 529}, false, status(529, 0)},
		"redirect":          {llmtest.Reply{Status: 307, Location: other.URL + "/chat/completions"}, false, status(307, 0)},
		"redirect of GET":   {llmtest.Reply{Status: 302, Location: other.URL + "/messages"}, false, status(302, 0)},
		"broken":            {llmtest.Reply{Break: true}, false, broken},
		"half":              {llmtest.Reply{Half: true}, false, broken},
		"hang":              {llmtest.Hang, true, timeout},
		"drip":              {llmtest.Reply{Drip: true}, true, timeout},
		"no JSON":           {llmtest.Reply{Raw: "a text with the key " + key}, false, unusable},
		"other JSON":        {llmtest.Reply{Raw: `{"error": "` + key + `"}`}, false, unusable},
		"blank":             {llmtest.Reply{Text: " \n"}, false, unusable},
		"list":              {llmtest.Reply{Raw: `["` + key + `"]`}, false, unusable},
		"cut JSON":          {llmtest.Reply{Raw: `{"choices": [{"message": {"content": "a"`}, false, unusable},
		"too large":         {llmtest.Reply{Text: strings.Repeat("a", 2<<20)}, false, unusable},
		"cut answer":        {llmtest.Reply{Text: "half of", Finish: "length"}, false, unusable},
		"cut answer too":    {llmtest.Reply{Text: "half of", Finish: "max_tokens"}, false, unusable},
		"filtered":          {llmtest.Reply{Text: "half of", Finish: "content_filter"}, false, unusable},
		"refused":           {llmtest.Reply{Refuse: "I cannot"}, false, unusable},
		"tool":              {llmtest.Reply{Calls: []llmtest.Call{{Name: "f", Arguments: "{}"}}}, false, unusable},
		"strange end":       {llmtest.Reply{Text: "half of", Finish: "bored"}, false, unusable},
	} {
		t.Run(name, func(t *testing.T) {
			for _, k := range kinds {
				model := llmtest.New(t)
				model.Script(tt.reply)
				ctx := t.Context()
				if tt.short {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second) // the request should arrive
					defer cancel()
				}
				text, err := open(t, llm.Config{Kind: k.kind, URL: model.URL, Model: "m", APIKey: key}).Write(ctx, system, document)
				require.Error(t, err, "%s: %q", k.kind, text)
				tt.check(t, err)
				for e := err; e != nil; e = errors.Unwrap(e) {
					require.NotContains(t, e.Error(), key)
					require.NotContains(t, e.Error(), "Explain")
				}
				require.LessOrEqual(t, len(model.Requests()), 1, "%s: the SDK tried again", k.kind)
			}
		})
	}
	require.Empty(t, other.Requests(), "a redirect was followed")
}

func TestRefused(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	for _, k := range kinds {
		_, err := open(t, llm.Config{Kind: k.kind, URL: srv.URL, Model: "m", APIKey: key}).Write(t.Context(), system, document)
		var broken *llm.BrokenError
		require.ErrorAs(t, err, &broken)
		require.NotContains(t, err.Error(), key)
	}
}

// TestURLs: an address is understood in the forms in which people have it.
func TestURLs(t *testing.T) {
	for _, k := range kinds {
		model := llmtest.New(t)
		root := strings.TrimSuffix(model.URL, "/v1")
		for i, u := range []string{root, root + "/", root + "/v1", root + "/v1/", root + k.path, root + k.path + "/"} {
			_, err := open(t, llm.Config{Kind: k.kind, URL: u, Model: "m"}).Write(t.Context(), system, document)
			require.NoError(t, err, u)
			require.Len(t, model.Requests(), i+1)
			require.Equal(t, k.path, model.Requests()[i].Path, u)
		}
	}
	var path string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(gateway.Close)
	for _, tt := range []struct{ kind, given, asked string }{
		{llm.OpenAI, "/openai/deployments/x", "/openai/deployments/x/chat/completions"},
		{llm.OpenAI, "/api/v3", "/api/v3/chat/completions"},
		{llm.Anthropic, "/anthropic", "/anthropic/v1/messages"},
		{llm.Anthropic, "/anthropic/v1/messages", "/anthropic/v1/messages"},
	} {
		_, err := open(t, llm.Config{Kind: tt.kind, URL: gateway.URL + tt.given, Model: "m"}).Write(t.Context(), system, document)
		require.Error(t, err)
		require.Equal(t, tt.asked, path)
	}
}

func TestNew(t *testing.T) {
	for _, k := range kinds {
		require.Equal(t, "m", open(t, llm.Config{Kind: k.kind, Model: "m", APIKey: key}).Model(), "the provider's own address")
	}
	for name, c := range map[string]llm.Config{
		"no kind":         {Model: "m"},
		"unknown kind":    {Kind: "parrot", Model: "m"},
		"no model":        {Kind: llm.OpenAI},
		"no host":         {Kind: llm.OpenAI, Model: "m", URL: "localhost:11434/v1"},
		"no scheme":       {Kind: llm.OpenAI, Model: "m", URL: "api.openai.com/v1"},
		"other scheme":    {Kind: llm.Anthropic, Model: "m", URL: "ftp://localhost/v1"},
		"not parsable":    {Kind: llm.OpenAI, Model: "m", URL: "http://user:" + key + "@[::1/v1"},
		"user":            {Kind: llm.OpenAI, Model: "m", URL: "http://user:" + key + "@localhost/v1"},
		"query":           {Kind: llm.OpenAI, Model: "m", URL: "http://localhost/v1?key=" + key},
		"fragment":        {Kind: llm.Anthropic, Model: "m", URL: "http://localhost/v1#" + key},
		"line in the key": {Kind: llm.OpenAI, Model: "m", APIKey: key + "\n"},
		"inside the key":  {Kind: llm.Anthropic, Model: "m", APIKey: "a\r\nX: " + key},
	} {
		_, err := llm.New(c)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), key, name)
	}
}
