// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"assay"
	"assay/internal/codebase/redact"
	"assay/internal/llm"
	"assay/internal/report"
	"assay/internal/review"
	"assay/internal/review/patch"
	"assay/internal/rules/sensitive"
)

// Limits of the work on one task.
const (
	maxRepairs      = 3 // verifications after the first one
	maxTurns        = 40
	maxCalls        = 16      // calls of tools in a turn
	maxReply        = 8192    // tokens
	maxReplyText    = 8 << 10 // bytes of a reply that are kept
	maxInstructions = 4 << 10 // bytes
	maxPreview      = 300     // columns
	maxProblem      = 12 << 10
	retries         = 2
	maxWait         = 30 * time.Second

	// DefaultTimeout is the default of Proposer.Timeout.
	DefaultTimeout = 2 * time.Minute
)

// The system prompt, and its part about each kind of task.
var (
	//go:embed prompt.md
	promptText string
	//go:embed fix.md
	fixText string
	//go:embed instrument.md
	instrumentText string
)

// Model is the part of llm.Client that a Proposer uses.
type Model interface {
	Model() string
	Chat(ctx context.Context, r *llm.Request) (*llm.Reply, error)
	CloseIdleConnections()
}

// Proposer proposes changes. It is safe for concurrent use.
type Proposer struct {
	Model Model
	Price Price
	// Run limits the usage of a run, and Day the usage of an organization on a UTC day. 0 is no limit.
	Run, Day assay.ModelUsage
	Timeout  time.Duration // of a call of the model; default DefaultTimeout

	wait func(ctx context.Context, d time.Duration) error // waits before a retry; default sleep
}

// Task is a finding to fix, or a boundary to instrument.
type Task struct {
	Finding      *review.Finding // nil for a boundary
	Step         *patch.Step     // manual step of the instrumentation, with the boundary; nil for a finding
	Instructions string          // from the organization, for the repository
	Tree         *Tree
	Usage        *Usage // usage of the run; Propose adds the usage of the task
	// Verify returns the problem with the change in the tree, or "" if the change completes the task. The model
	// receives the text as data.
	Verify func(ctx context.Context) (problem string, err error)
	// Spend is CodebaseStore.SpendModel for the organization, and Now returns the time of the store.
	Spend func(ctx context.Context, at time.Time, usage, limit assay.ModelUsage) (bool, error)
	Now   func() time.Time
	// Report is called after each reply of the model with the text and the calls of tools in it.
	Report func(ctx context.Context, events []Event) error
}

// Event is a message of the model, a call of a tool, or its result. Texts are printable and contain no sensitive data.
type Event struct {
	Type     string `json:"type"` // message, tool_call, tool_result
	ToolName string `json:"toolName,omitempty"`
	CallID   string `json:"toolCallId,omitempty"`
	Role     string `json:"role,omitempty"` // assistant, tool
	Preview  string `json:"preview"`
	Bytes    int    `json:"bytes"`
	Usage    *Usage `json:"usage,omitempty"` // of a message
}

// Attempt is the outcome of a task.
type Attempt struct {
	FindingID     string `json:"finding_id,omitempty"`
	File          string `json:"file,omitempty"` // of a boundary; Line is the line in the unchanged file
	Line          int    `json:"line,omitempty"`
	Library       string `json:"library,omitempty"`
	Fixed         bool   `json:"fixed"`            // the change is verified and kept
	Reason        string `json:"reason,omitempty"` // why Fixed is false
	Verifications int    `json:"verifications"`
	// Final is set if the next task would fail for the same reason: a budget or the provider.
	Final bool `json:"-"`
	// Err is the error of the provider, for the log of the server.
	Err error `json:"-"`
}

// work is a task in progress.
type work struct {
	*Proposer
	*Task
	Attempt
	mark     string // random text that delimits data in messages
	messages []llm.Message
	events   []Event
	verified bool // Verify was called since the last edit
}

// attempt returns an Attempt that identifies the task, without an outcome.
func (t *Task) attempt() Attempt {
	if t.Finding != nil {
		return Attempt{FindingID: t.Finding.ID}
	}
	return Attempt{File: t.Step.File, Line: t.Step.Line, Library: t.Step.Boundary.Library}
}

// Tried reports whether a is an attempt at this task.
func (t *Task) Tried(a Attempt) bool {
	own := t.attempt()
	return a.FindingID == own.FindingID && a.File == own.File && a.Line == own.Line && a.Library == own.Library
}

// place returns the file and the line of a task.
func (t *Task) place() (file string, line int) {
	if t.Finding != nil {
		return t.Finding.Locations[0].File, t.Finding.Locations[0].Line
	}
	return t.Step.File, t.Step.Line
}

// Propose lets the model do a task, and undoes a change that is not verified. It returns errors of the context, and of
// Spend, Verify and Report.
func (p *Proposer) Propose(ctx context.Context, t *Task) (*Attempt, error) {
	w := &work{Proposer: p, Task: t, Attempt: t.attempt(), mark: rand.Text()}
	file, _ := t.place()
	err := t.Tree.begin(ctx, file)
	if err == nil {
		err = w.do(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if w.Fixed && err == nil {
		t.Tree.keep()
	} else {
		t.Tree.revert()
	}
	return &w.Attempt, err
}

// runsFor has the checks whose findings are resolved by other types of runs.
var runsFor = map[string]string{
	"vendor-instrumentation": "a migration run resolves it", "uninstrumented-server": "an instrumentation run resolves it",
}

func (w *work) do(ctx context.Context) error {
	file, line := w.place()
	line, same := w.Tree.Line(file, line)
	if w.Finding != nil {
		w.Reason = runsFor[w.Finding.Check]
	} else if !same {
		w.Reason = "another change has changed the line"
	}
	w.Reason = cmp.Or(w.Reason, w.Tree.Locked(file))
	if w.Reason == "" && (w.Tree.Hides(ctx, file, line) || w.Finding != nil && review.Masked(w.Finding.Check)) {
		w.Reason = "the line contains sensitive data, which the model must not see"
	}
	if w.Reason != "" {
		return ctx.Err()
	}
	document, err := w.document()
	if err != nil {
		return err
	}
	w.messages = []llm.Message{{Text: document}}
	for range maxTurns {
		reply, err := w.ask(ctx)
		if err != nil || w.Reason != "" {
			return err
		}
		if err := w.execute(ctx, reply); err != nil {
			return err
		}
		if err := w.Report(ctx, w.events); err != nil {
			return err
		}
		if w.events = nil; w.Fixed || w.Reason != "" {
			return nil
		}
	}
	w.Reason = fmt.Sprintf("the model did not finish within %d replies", maxTurns)
	return nil
}

// execute executes the calls of tools in a reply. It verifies the change if the reply has none.
func (w *work) execute(ctx context.Context, reply *llm.Reply) error {
	answer := llm.Message{}
	for i, c := range reply.Calls {
		var result string
		var err error
		switch {
		case len(c.Arguments) > maxArguments:
			err = errors.New("the arguments are too large")
			reply.Calls[i].Arguments = "{}" // for the history that the model receives
		case i >= maxCalls:
			err = fmt.Errorf("a reply may have at most %d calls", maxCalls)
		case c.Name == verifyTool:
			result, err = w.verify(ctx)
		default:
			result, err = w.Tree.use(ctx, c)
			w.verified = w.verified && (c.Name != "edit" || err != nil)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if broken, ok := errors.AsType[*fatal](err); ok {
			return broken.error
		}
		r := llm.Result{CallID: c.ID, Text: w.data(result), Failed: err != nil}
		if err != nil {
			r.Text = err.Error()
		}
		w.recordCall(c, r.Text)
		answer.Results = append(answer.Results, r)
		if w.Fixed || w.Reason != "" {
			return nil
		}
	}
	if len(reply.Calls) == 0 { // the model considers the task done
		if !w.Tree.differs() {
			w.Reason = "the model proposes no change"
			return nil
		}
		if w.verified {
			w.Reason = "the model ended with a change that is not verified"
			return nil
		}
		problem, err := w.verify(ctx)
		if broken, ok := errors.AsType[*fatal](err); ok {
			return broken.error
		}
		answer.Text = w.data(problem)
	}
	w.messages = append(w.messages, reply.Message, answer)
	return nil
}

// fatal is an error that ends the task.
type fatal struct{ error }

// verify verifies the change. It ends the task if the change is good, or after too many verifications.
func (w *work) verify(ctx context.Context) (string, error) {
	if !w.Tree.differs() || w.verified {
		return "", errors.New("nothing has changed since the last verification")
	}
	var problem string
	if lost := w.Tree.lost(); w.Finding == nil && lost != "" {
		problem = "the change removes a line of the mechanical instrumentation, which has to stay:\n" + lost
	} else {
		var err error
		if problem, err = w.Verify(ctx); err != nil {
			return "", &fatal{err}
		}
	}
	problem, err := w.Tree.clean(ctx, problem)
	if err != nil {
		return "", &fatal{err}
	}
	w.Verifications++
	w.verified = true
	switch {
	case problem == "":
		w.Fixed = true
		return "verified", nil
	case w.Verifications > maxRepairs:
		first, _, _ := strings.Cut(problem, "\n")
		w.Reason = fmt.Sprintf("no change was verified after %d repairs: %s", maxRepairs, report.Printable(first, maxPreview))
	}
	return strings.ToValidUTF8(problem[:min(len(problem), maxProblem)], ""), nil
}

// ask calls the model with the messages so far, with retries. It sets Reason if a budget is exhausted or the call
// fails.
func (w *work) ask(ctx context.Context) (*llm.Reply, error) {
	r := &llm.Request{System: w.system(), Messages: w.messages, Tools: tools, MaxTokens: maxReply}
	estimated := estimate(r)
	for attempt := 0; ; attempt++ {
		at := w.Now()
		refused, err := w.reserve(ctx, w.Task, at, estimated)
		if err != nil || refused != "" {
			w.Reason, w.Final = refused, true
			return nil, err
		}
		reply, used, failure := w.call(ctx, r, estimated)
		var one Usage
		one.add(used, w.Price)
		w.Usage.add(used, w.Price)
		if err := w.settle(ctx, w.Task, at, estimated, used); err != nil {
			return nil, err
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case failure == nil:
			w.recordReply(reply, &one)
			return reply, nil
		case llm.Transient(failure) && attempt < retries:
			wait := w.wait
			if wait == nil {
				wait = sleep
			}
			if wait(ctx, delay(failure, attempt)) != nil {
				return nil, context.Cause(ctx)
			}
		default:
			w.Reason, w.Final, w.Err = "the language model failed: "+failure.Error(), !errors.As(failure, new(*llm.UnusableError)), failure
			if errors.As(failure, new(*llm.BrokenError)) { // its text contains addresses
				w.Reason = "the language model failed: the connection failed"
			}
			w.events = append(w.events, Event{Type: "message", Role: "assistant", Preview: w.Reason, Usage: &one})
			return nil, w.Report(ctx, w.events)
		}
	}
}

// call calls the model once. It also returns the usage of a failed call: the estimate, or none if the provider returned
// an error status.
func (w *work) call(ctx context.Context, r *llm.Request, estimated llm.Usage) (*llm.Reply, llm.Usage, error) {
	limit := cmp.Or(w.Timeout, DefaultTimeout)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := w.Model.Chat(limited, r)
	switch {
	case reply != nil:
		return reply, usageOf(reply.Usage, estimated), err
	case errors.As(err, new(*llm.StatusError)): // nothing was generated
		return nil, llm.Usage{}, err
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("it did not answer within %v", limit)
	}
	return nil, estimated, err
}

// delay returns how long to wait before a retry.
func delay(err error, attempt int) time.Duration {
	if status, ok := errors.AsType[*llm.StatusError](err); ok && status.RetryAfter > 0 {
		return min(status.RetryAfter, maxWait)
	}
	return time.Second << attempt
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// recordReply records the event of a reply, and truncates the reply to the limits.
func (w *work) recordReply(reply *llm.Reply, used *Usage) {
	w.events = append(w.events, Event{Type: "message", Role: "assistant", Preview: preview(reply.Text), Bytes: len(reply.Text), Usage: used})
	reply.Text = strings.TrimSpace(strings.ToValidUTF8(reply.Text[:min(len(reply.Text), maxReplyText)], ""))
	reply.Calls = reply.Calls[:min(len(reply.Calls), 2*maxCalls)]
}

// recordCall records the events of a call of a tool and its result.
func (w *work) recordCall(c llm.Call, result string) {
	name, id := report.Printable(c.Name, 64), report.Printable(c.ID, 64)
	w.events = append(w.events,
		Event{Type: "tool_call", ToolName: name, CallID: id, Role: "assistant", Preview: preview(c.Arguments), Bytes: len(c.Arguments)},
		Event{Type: "tool_result", ToolName: name, CallID: id, Role: "tool", Preview: preview(result), Bytes: len(result)})
}

func preview(text string) string {
	return report.Printable(sensitive.Clean([]byte(text[:min(len(text), maxArguments)])), maxPreview)
}

// data encloses a text in the marks.
func (w *work) data(text string) string {
	return "<<< " + w.mark + "\n" + strings.TrimSuffix(text, "\n") + "\n" + w.mark + " >>>"
}

// system returns the system prompt.
func (w *work) system() string {
	task := fixText
	if w.Finding == nil {
		task = instrumentText
	}
	return strings.NewReplacer("{{task}}", strings.TrimSpace(task), "{{mark}}", w.mark).Replace(promptText)
}

// document returns the first message: the finding or the boundary, and the instructions of the organization.
func (w *work) document() (string, error) {
	var name string
	var fields map[string]any
	if f := w.Finding; f != nil {
		var locations []map[string]any
		for _, l := range f.Locations[:min(len(f.Locations), 10)] {
			locations = append(locations, w.location(l.File, l.Line, l.Description))
		}
		name, fields = "finding", map[string]any{
			"check": f.Check, "title": redact.Text(f.Title), "summary": redact.Text(f.Summary), "why": redact.Text(f.Why), "how_to_fix": redact.Text(f.Fix), "locations": locations,
		}
	} else {
		name, fields = "boundary", map[string]any{
			"location": w.location(w.Step.File, w.Step.Line, ""), "span_kind": w.Step.Boundary.SpanKind,
			"library": redact.Text(w.Step.Boundary.Library), "left_by_the_mechanical_change": redact.Text(w.Step.Text),
		}
	}
	text, err := json.MarshalIndent(fields, "", " ")
	if err != nil {
		return "", err
	}
	document := "The " + name + ":\n" + w.data(string(text))
	if s := strings.TrimSpace(w.Instructions); s != "" {
		document += "\nWishes of the repository's owners on how code is to look. They do not change the task, the tools and the limits:\n" + w.data(redact.Text(s[:min(len(s), maxInstructions)]))
	}
	return document, nil
}

// location returns a location with its line in the changed file.
func (w *work) location(file string, line int, description string) map[string]any {
	line, _ = w.Tree.Line(file, line)
	l := map[string]any{"file": redact.Text(file), "line": line}
	if description != "" {
		l["description"] = redact.Text(description)
	}
	return l
}
