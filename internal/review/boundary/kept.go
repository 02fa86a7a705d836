// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// lost returns a problem if a change removes calls, returns or returned values of a file, otherwise "". Code may move
// within the file. Like all problems that Lacks returns, it gives lines and quotes no code: the reader may not see the
// whole file.
func lost(was, is *file) string {
	calls, values, exits := map[string]int{}, map[string]int{}, map[syntax.Kind]int{}
	returned := map[string]bool{} // names of variables
	for n := range is.Root.All() {
		if !is.runs[n] {
			continue
		}
		calls[is.called(n)]++
		if p := n.Parent; (n.Kind == syntax.Name || n.Kind == syntax.Member) && (p.Kind == syntax.Call || p.Kind == syntax.New) && p.Callee() != n {
			calls[is.function(n.Text)]++ // traced(client.get)
		}
		exits[n.Kind]++
		for _, v := range results(n) {
			leaves(v, func(c *syntax.Node) {
				values[c.Text]++
				if c.Kind == syntax.Name {
					returned[c.Text] = true
				}
			})
		}
	}
	for n := range is.Root.All() { // v = x; return v
		if is.runs[n] && n.Kind == syntax.Assign && returned[n.Targets()[0].Text] {
			leaves(n.Value(), func(c *syntax.Node) { values[c.Text]++ })
		}
	}
	for n := range was.Root.All() {
		if !was.runs[n] {
			continue
		}
		if name := was.called(n); name != "" {
			if calls[name]--; calls[name] < 0 {
				return fmt.Sprintf("calls, such as the one of line %d before the change, are removed, or no longer run: keep them", was.LineOf(n.Start))
			}
		}
		if n.Kind == syntax.Return || n.Kind == syntax.Throw {
			if exits[n.Kind]--; exits[n.Kind] < 0 {
				return fmt.Sprintf("a return or throw, such as the one of line %d before the change, is removed, or no longer runs: keep it", was.LineOf(n.Start))
			}
		}
		for _, v := range results(n) {
			var kept []*syntax.Node
			if leaves(v, func(c *syntax.Node) { kept = append(kept, c) }) {
				continue // the result of a call may be in a variable now
			}
			for _, c := range kept {
				if values[c.Text]--; values[c.Text] < 0 {
					return fmt.Sprintf("a value of line %d before the change is no longer returned: keep what the code returns", was.LineOf(c.Start))
				}
			}
		}
	}
	return ""
}

// called returns the name of the function that a call calls. It returns "" for other code, and in Go for calls such as
// context.Background(), which the context of a span replaces.
func (f *file) called(n *syntax.Node) string {
	if n.Kind != syntax.Call && n.Kind != syntax.New {
		return ""
	}
	name := n.Callee().Text
	if f.Language == syntax.Go && len(n.Args()) == 0 && slices.Contains([]string{"Background", "TODO", "Context"}, name) {
		return ""
	}
	return f.function(name)
}

// function returns the name by which functions are compared. In Go, it leaves out the suffixes Context, With and Func:
// a change may call such a variant instead.
func (f *file) function(name string) string {
	if f.Language != syntax.Go {
		return name
	}
	for _, suffix := range []string{"Context", "With", "Func"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// results returns the results of a return or of a function without a block.
func results(n *syntax.Node) []*syntax.Node {
	switch {
	case n.Kind == syntax.Return:
		return n.Children
	case n.Kind == syntax.Func && n.Body().Kind != syntax.Block:
		return n.Children[len(n.Children)-1:]
	default:
		return nil
	}
}

// leaves visits the names and literals of an expression outside of functions. It reports whether the expression has
// calls or functions.
func leaves(n *syntax.Node, visit func(*syntax.Node)) (calls bool) {
	switch n.Kind {
	case syntax.Func, syntax.Class:
		return true
	case syntax.Name, syntax.Member, syntax.String, syntax.Number, syntax.Bool:
		visit(n)
	case syntax.Call, syntax.New, syntax.Await:
		calls = true
	}
	for _, c := range n.Children {
		calls = leaves(c, visit) || calls
	}
	return calls
}

// silencers are the names of the OpenTelemetry API and SDK that set up, replace or shut down the SDK of the process.
var silencers = func() map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(`disable shutdown Shutdown uninstrument uninstrument_app suppressTracing suppress_instrumentation suppress_http_instrumentation
		SetTracerProvider SetMeterProvider SetLoggerProvider SetTextMapPropagator NewTracerProvider NewMeterProvider NewLoggerProvider NeverSample
		set_tracer_provider set_meter_provider set_logger_provider set_global_textmap ALWAYS_OFF
		setGlobalTracerProvider setGlobalMeterProvider setGlobalLoggerProvider setGlobalContextManager setGlobalPropagator AlwaysOffSampler
		TracerProvider MeterProvider LoggerProvider NodeTracerProvider BasicTracerProvider WebTracerProvider ProxyTracerProvider NodeSDK
		SdkTracerProvider SdkMeterProvider SdkLoggerProvider OpenTelemetrySdk AutoConfiguredOpenTelemetrySdk resetForTest propagating alwaysOff`) {
		all[name] = true
	}
	return all
}()

// sdkSettings matches environment variables and properties of the SDK, and the global variable of the JavaScript API.
var sdkSettings = regexp.MustCompile(`^(OTEL_|opentelemetry\.js\.api\.|otel\.(sdk|javaagent|traces|metrics|logs|propagators)\b)`)

// silenced returns a problem if a change adds code that may turn off telemetry of the process, otherwise "".
func silenced(was, is *file) string {
	before := map[string]int{}
	was.silencers(func(name string, _ *syntax.Node) bool {
		before[name]++
		return true
	})
	problem := ""
	is.silencers(func(name string, at *syntax.Node) bool {
		if before[name]--; before[name] < 0 {
			problem = fmt.Sprintf("the change adds code that sets up, replaces or turns off telemetry of the whole process, such as that of line %d: leave that as it is, and only start spans or instrument the library", is.LineOf(at.Start))
		}
		return problem == ""
	})
	return problem
}

// silencers yields the uses of silencers, SDK settings and no-op implementations, and assignments to the API.
func (f *file) silencers(yield func(name string, at *syntax.Node) bool) {
	for _, i := range f.Imports {
		name := i.Path
		if instrumentation.NoopName(i.Member) || i.Name != i.Member && silencers[i.Member] {
			name = i.Member
		} else if !instrumentation.NoopName(name) {
			continue
		}
		if !yield(name, i.Node) {
			return
		}
	}
	for n := range f.Root.All() {
		name := n.Text
		switch n.Kind {
		case syntax.Name, syntax.Member:
			global := n.Kind == syntax.Member && name == "set" && n.Children[0].Text == "GlobalOpenTelemetry"
			if !global && !silencers[name] && !instrumentation.NoopName(name) && !strings.HasPrefix(name, "OTEL_") {
				continue
			}
		case syntax.String:
			if !sdkSettings.MatchString(name) && !(silencers[name] && named(n)) {
				continue
			}
		case syntax.Assign:
			t := n.Targets()[0]
			if t.Kind != syntax.Member && t.Kind != syntax.Index {
				continue
			}
			if i, ok := f.Imported(t.Children[0].Text); !ok || !syntax.Below(i.Path, telemetryAPI[f.Language]) {
				continue
			}
			name = f.Code(t)
		default:
			continue
		}
		if !yield(name, n) {
			return
		}
	}
}

// named reports whether a string is the name of a member: trace["disable"], getattr(trace, "disable"), const { disable:
// f } = trace.
func named(n *syntax.Node) bool {
	switch p := n.Parent; p.Kind {
	case syntax.Index:
		return true
	case syntax.Call:
		return p.Callee().Text == "getattr"
	case syntax.Pair:
		up := p.Parent
		return p.Children[0] == n && up.Parent != nil && (up.Parent.Kind == syntax.Param || up.Parent.Kind == syntax.Assign && up.Parent.Value() != up)
	default:
		return false
	}
}
