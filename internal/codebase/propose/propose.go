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
	maxRepairs      = 3 // verifications after the first
	maxTurns        = 40
	maxCalls        = 16      // of a turn
	maxReply        = 8192    // tokens
	maxReplyText    = 8 << 10 // bytes that are kept of a reply
	maxInstructions = 4 << 10 // bytes
	maxPreview      = 300     // columns
	maxProblem      = 12 << 10
	retries         = 2
	maxWait         = 30 * time.Second

	// DefaultTimeout is the default of Proposer.Timeout.
	DefaultTimeout = 2 * time.Minute
)

// The system prompt, and its part about each kind of tasks.
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
	// Run and Day limit the use by one run, and by an organization on one UTC day. 0 is no limit.
	Run, Day assay.ModelUsage
	Timeout  time.Duration // of a call; default DefaultTimeout

	wait func(ctx context.Context, d time.Duration) error // before a retry; default sleep
}

// Task is a finding to fix, or a boundary to instrument.
type Task struct {
	Finding      *review.Finding // nil for a boundary
	Step         patch.Step      // that an instrumentation leaves, with a boundary
	Instructions string          // of the organization, for the repository
	Tree         *Tree
	Usage        *Usage // of the run, to which Propose adds
	// Verify returns the defect of the change in the tree, or "" if it does the task. The text is data for the model.
	Verify func(ctx context.Context) (problem string, err error)
	// Spend is CodebaseStore.SpendModel for the organization, and Now the store's time.
	Spend func(ctx context.Context, at time.Time, usage, limit assay.ModelUsage) (bool, error)
	Now   func() time.Time
	// Report is called after each reply of the model with its text and its calls of tools.
	Report func(ctx context.Context, events []Event) error
}

// Event is a text of a model, or its call of a tool. Texts are printable and without sensitive data.
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
	File          string `json:"file,omitempty"` // of a boundary, with the line that the repository has
	Line          int    `json:"line,omitempty"`
	Library       string `json:"library,omitempty"`
	Fixed         bool   `json:"fixed"`            // the change stays
	Reason        string `json:"reason,omitempty"` // why it does not
	Verifications int    `json:"verifications"`
	// Final is set if the next task would end like this one, because of a budget or the provider.
	Final bool `json:"-"`
	// Err is the failure of the provider, for the log of the server.
	Err error `json:"-"`
}

// work is a task in execution.
type work struct {
	*Proposer
	*Task
	Attempt
	mark     string // around data
	messages []llm.Message
	events   []Event
	verified bool // since the last edit
}

// attempt returns the attempt at a task before it begins.
func (t *Task) attempt() Attempt {
	if t.Finding != nil {
		return Attempt{FindingID: t.Finding.ID}
	}
	return Attempt{File: t.Step.File, Line: t.Step.Line, Library: t.Step.Boundary.Library}
}

// Tried reports whether an attempt was at this task.
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

// Propose has the model do a task. A change that is not verified is undone. Errors come from the context, and from Spend,
// Verify and Report.
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

// runsFor are checks whose findings other types of runs resolve.
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
		if err := w.follow(ctx, reply); err != nil {
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

// follow executes the calls of tools in a reply.
func (w *work) follow(ctx context.Context, reply *llm.Reply) error {
	answer := llm.Message{}
	for i, c := range reply.Calls {
		var result string
		var err error
		switch {
		case len(c.Arguments) > maxArguments:
			err = errors.New("the arguments are too large")
			reply.Calls[i].Arguments = "{}" // as the model is reminded of it
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
		w.note(c, r.Text)
		answer.Results = append(answer.Results, r)
		if w.Fixed || w.Reason != "" {
			return nil
		}
	}
	if len(reply.Calls) == 0 { // the model is done
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

// verify verifies the change and ends the task when it is good, or when there were too many verifications.
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

// ask asks the model to continue, with retries. It sets Reason if there is no answer.
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
			w.said(reply, &one)
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
			if errors.As(failure, new(*llm.BrokenError)) { // which names addresses
				w.Reason = "the language model failed: the connection failed"
			}
			w.events = append(w.events, Event{Type: "message", Role: "assistant", Preview: w.Reason, Usage: &one})
			return nil, w.Report(ctx, w.events)
		}
	}
}

// call calls the model once and returns the usage.
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

// said records a reply and limits its length.
func (w *work) said(reply *llm.Reply, used *Usage) {
	w.events = append(w.events, Event{Type: "message", Role: "assistant", Preview: preview(reply.Text), Bytes: len(reply.Text), Usage: used})
	reply.Text = strings.TrimSpace(strings.ToValidUTF8(reply.Text[:min(len(reply.Text), maxReplyText)], ""))
	reply.Calls = reply.Calls[:min(len(reply.Calls), 2*maxCalls)]
}

// note records a call of a tool and its result.
func (w *work) note(c llm.Call, result string) {
	name, id := report.Printable(c.Name, 64), report.Printable(c.ID, 64)
	w.events = append(w.events,
		Event{Type: "tool_call", ToolName: name, CallID: id, Role: "assistant", Preview: preview(c.Arguments), Bytes: len(c.Arguments)},
		Event{Type: "tool_result", ToolName: name, CallID: id, Role: "tool", Preview: preview(result), Bytes: len(result)})
}

func preview(text string) string {
	return report.Printable(sensitive.Clean([]byte(text[:min(len(text), maxArguments)])), maxPreview)
}

// data puts a text between the marks.
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
	name, fields := "boundary", map[string]any{
		"location": w.location(w.Step.File, w.Step.Line, ""), "span_kind": w.Step.Boundary.SpanKind, "library": redact.Text(w.Step.Boundary.Library), "left_by_the_mechanical_change": redact.Text(w.Step.Text),
	}
	if f := w.Finding; f != nil {
		var locations []map[string]any
		for _, l := range f.Locations[:min(len(f.Locations), 10)] {
			locations = append(locations, w.location(l.File, l.Line, l.Description))
		}
		name, fields = "finding", map[string]any{
			"check": f.Check, "title": redact.Text(f.Title), "summary": redact.Text(f.Summary), "why": redact.Text(f.Why), "how_to_fix": redact.Text(f.Fix), "locations": locations,
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

// location returns a place with its present line.
func (w *work) location(file string, line int, description string) map[string]any {
	line, _ = w.Tree.Line(file, line)
	l := map[string]any{"file": redact.Text(file), "line": line}
	if description != "" {
		l["description"] = redact.Text(description)
	}
	return l
}
