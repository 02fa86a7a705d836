// SPDX-License-Identifier: Apache-2.0

package llmtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// DefaultAnswer is the reply of the model without a script.
const DefaultAnswer = "## Why it matters\n\nTraces break.\n\n## What it costs here\n\nMost of the spans.\n\n## Next step\n\nSet `service.name`.\n"

// Request is a request to the model.
type Request struct {
	Path   string
	Header http.Header
	Model  string
	System string // the texts of the role system
	User   string // the texts of the role user
	// Tools are the names of the tools that it may call, Results the results of its calls, in order.
	Tools, Results []string
	Body           string // as it came
}

// Prompt returns everything that the model was shown.
func (r Request) Prompt() string { return r.System + "\n" + r.User }

// Reply is the response of the server to one request. The zero value answers
// DefaultAnswer.
type Reply struct {
	Status     int           // default 200
	RetryAfter time.Duration // header Retry-After, in whole seconds; none for 0
	Location   string        // header Location

	Text   string // of the reply
	Finish string // finish_reason or stop_reason; default the one of a whole answer
	Empty  bool   // the reply has no text
	Calls  []Call // that it makes
	// Input and Output are the tokens of the usage; default 1. Negative ones are sent as they are.
	Input, Output int
	Refuse        string // the text of a refusal

	Raw   string          // body in place of one in the wire format
	Drip  bool            // the body comes byte by byte and never ends
	Half  bool            // the connection breaks in the middle of the body
	Break bool            // the connection breaks before an answer
	After <-chan struct{} // wait for it first
}

// Hang is a Reply that never comes.
var Hang = Reply{After: make(chan struct{})}

// Call is a call of a tool. Arguments is JSON; the format of OpenAI can send any text.
type Call struct{ Name, Arguments string }

// Server is the model. Its methods may be called concurrently.
type Server struct {
	// URL of the API, as --summary-url takes it.
	URL string

	closing chan struct{}
	mu      sync.Mutex
	script  []Reply
	always  Reply
	asked   []Request
}

// New starts a server that is closed when the test ends.
func New(t testing.TB) *Server {
	s := &Server{closing: make(chan struct{})}
	srv := httptest.NewServer(s)
	s.URL = srv.URL + "/v1"
	t.Cleanup(func() {
		close(s.closing)
		srv.Close()
	})
	return s
}

// Script sets the replies to the next requests.
func (s *Server) Script(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = replies
}

// Always sets the reply to requests for which there is no script.
func (s *Server) Always(r Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = r
}

// Requests returns the requests to the model, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	operation := strings.TrimPrefix(r.URL.Path, "/v1")
	request, err := parse(body)
	if r.Method != http.MethodPost || err != nil || operation != "/chat/completions" && operation != "/messages" {
		http.Error(w, fmt.Sprintf("%s %s is no operation of a model: %v", r.Method, r.URL.Path, err), http.StatusNotFound)
		return
	}
	request.Path, request.Header = r.URL.Path, r.Header.Clone()
	reply := s.next(request)
	if reply.After != nil {
		select {
		case <-reply.After:
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
	if reply.Break {
		sever(w)
		return
	}
	text := reply.Raw
	if text == "" {
		text = reply.body(operation == "/messages")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if reply.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(reply.RetryAfter.Seconds())))
	}
	if reply.Location != "" {
		h.Set("Location", reply.Location)
	}
	if reply.Half {
		h.Set("Content-Length", strconv.Itoa(len(text)))
		text = text[:len(text)/2]
	}
	w.WriteHeader(cmp.Or(reply.Status, http.StatusOK))
	_, _ = io.WriteString(w, text) // the client may have disconnected
	if reply.Half {
		sever(w)
	}
	if reply.Drip {
		s.drip(w, r)
	}
}

// next records a request and returns the reply to it.
func (s *Server) next(r Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	if len(s.script) == 0 {
		return s.always
	}
	reply := s.script[0]
	s.script = s.script[1:]
	return reply
}

// sever closes the connection after the written bytes.
func sever(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func (s *Server) drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		case <-tick.C:
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// parse reads a request in either format: the system text is a message of its role,
// or a field beside the messages.
func parse(body []byte) (Request, error) {
	r := Request{Body: string(body)}
	var wire struct {
		Model    string
		System   json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct {
			Name     string
			Function struct{ Name string }
		}
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return r, err
	}
	r.Model, r.System = wire.Model, content(wire.System)
	for _, m := range wire.Messages {
		switch m.Role {
		case "system", "developer":
			r.System += content(m.Content)
		case "tool":
			r.Results = append(r.Results, content(m.Content))
		default:
			r.Results = append(r.Results, results(m.Content)...)
			r.User += content(m.Content)
		}
	}
	for _, t := range wire.Tools {
		r.Tools = append(r.Tools, t.Name+t.Function.Name)
	}
	return r, nil
}

// results returns the results of tools in a message of Anthropic's format.
func results(raw json.RawMessage) (all []string) {
	var parts []struct{ Type, Content string }
	_ = json.Unmarshal(raw, &parts) // a string has none
	for _, p := range parts {
		if p.Type == "tool_result" {
			all = append(all, p.Content)
		}
	}
	return all
}

// content returns the text of a message: a string, or a list of parts.
func content(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(raw, &parts) // without text there is none
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// object is a JSON object.
type object = map[string]any

func (r Reply) body(messages bool) string {
	if r.Status >= 300 {
		return `{"error": {"type": "test", "message": "the script says so"}}`
	}
	text := r.Text
	if text == "" && r.Refuse == "" && len(r.Calls) == 0 && !r.Empty {
		text = DefaultAnswer
	}
	r.Input, r.Output = cmp.Or(r.Input, 1), cmp.Or(r.Output, 1)
	if messages {
		return r.anthropic(text)
	}
	return r.openAI(text)
}

func (r Reply) openAI(text string) string {
	message := object{"role": "assistant", "content": text}
	finish := cmp.Or(r.Finish, "stop")
	if len(r.Calls) > 0 {
		calls := []object{}
		for i, c := range r.Calls {
			calls = append(calls, object{"id": strconv.Itoa(i), "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
		}
		message["tool_calls"] = calls
		finish = cmp.Or(r.Finish, "tool_calls")
	}
	if r.Refuse != "" {
		message["refusal"] = r.Refuse
	}
	return encode(object{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test",
		"choices": []object{{"index": 0, "finish_reason": finish, "message": message}},
		"usage":   object{"prompt_tokens": r.Input, "completion_tokens": r.Output, "total_tokens": r.Input + r.Output},
	})
}

func (r Reply) anthropic(text string) string {
	blocks := []object{}
	finish := "end_turn"
	if text != "" {
		blocks = append(blocks, object{"type": "text", "text": text})
	}
	for i, c := range r.Calls {
		var input any = c.Arguments // where OpenAI has a text, Anthropic has any value
		if json.Valid([]byte(c.Arguments)) {
			input = json.RawMessage(c.Arguments)
		}
		blocks = append(blocks, object{"type": "tool_use", "id": strconv.Itoa(i), "name": c.Name, "input": input})
		finish = "tool_use"
	}
	if r.Refuse != "" {
		finish = "refusal"
	}
	if r.Finish != "" {
		finish = r.Finish
	}
	return encode(object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "test", "content": blocks, "stop_reason": finish,
		"usage": object{"input_tokens": r.Input, "output_tokens": r.Output},
	})
}

func encode(v any) string {
	b, _ := json.Marshal(v) // of strings, numbers and lists: cannot fail
	return string(b)
}
