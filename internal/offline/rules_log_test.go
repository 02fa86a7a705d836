// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"fmt"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	. "assay/internal/rules/rulestest"
)

func severity(n int, text string) func(*logspb.LogRecord) {
	return func(r *logspb.LogRecord) { r.SeverityNumber, r.SeverityText = logspb.SeverityNumber(n), text }
}

func logged(at time.Time) func(*logspb.LogRecord) {
	return func(r *logspb.LogRecord) { r.TimeUnixNano = Nano(at) }
}

// TestDebugRule tests LOG-001.
func TestDebugRule(t *testing.T) {
	const day = 24 * time.Hour
	production := func(environment any) []Attr {
		return Attrs("service.name", "a", "service.instance.id", "i", "deployment.environment.name", environment)
	}
	// days returns a record on each of the n days up to T0.
	days := func(resource []Attr, n int, set ...func(*logspb.LogRecord)) Request {
		var list []*logspb.LogRecord
		for i := range n {
			list = append(list, Log("x", append(set, logged(After(-time.Duration(i)*day)))...))
		}
		return LogsRequest(Logs(resource, list...))
	}
	prod, debug := production("production"), severity(5, "")
	midnight := time.Date(2026, 10, 15, 0, 0, 0, 0, time.UTC)
	cases := []verdictCase{
		{name: "14 days", in: []Request{days(prod, 14, debug)}, want: []string{"a: +LOG-001"}},
		{name: "15 days", in: []Request{days(prod, 15, debug)}, want: []string{"a: -LOG-001"}},
		{name: "15 days without production", in: []Request{days(production("staging"), 15, debug)}, want: []string{"a: ~LOG-001 +LOG-002"}},
		{name: "15 days of INFO", in: []Request{days(prod, 15)}, want: []string{"a: +LOG-001"}},
		{name: "production without logs", in: one(prod), want: []string{"a: ~LOG-001"}},
		{name: "many records on one day", in: []Request{days(prod, 14, debug), days(prod, 14, debug)}, want: []string{"a: +LOG-001"}},
		{name: "the first nanosecond of the oldest day", in: []Request{
			days(prod, 14, debug), LogsRequest(Logs(prod, Log("x", debug, logged(midnight.Add(-13*day))))),
		}, want: []string{"a: +LOG-001"}},
		{name: "one nanosecond earlier is another day", in: []Request{
			days(prod, 14, debug), LogsRequest(Logs(prod, Log("x", debug, logged(midnight.Add(-13*day-1))))),
		}, want: []string{"a: -LOG-001"}},
		{name: "14 days in the window and one before", in: []Request{
			days(prod, 14, debug), LogsRequest(Logs(prod, Log("x", debug, logged(After(-30*day-1))))),
		}, want: []string{"a: +LOG-001"}},
		{name: "the oldest moment of the window counts", in: []Request{
			days(prod, 14, debug), LogsRequest(Logs(prod, Log("x", debug, logged(After(-30*day))))),
		}, want: []string{"a: -LOG-001"}},
		{
			name: "of two versions each for itself", in: []Request{
				days(append(production("prod"), Attrs("service.version", "1")...), 14, debug), days(append(production("prod"), Attrs("service.version", "2")...), 15, debug),
			},
			want: []string{"|a|prod|1: +LOG-001", "|a|prod|2: -LOG-001"},
		},
		{name: "by the observed time", in: []Request{func() Request {
			var list []*logspb.LogRecord
			for i := range 15 {
				list = append(list, Log("x", debug, func(r *logspb.LogRecord) {
					r.TimeUnixNano, r.ObservedTimeUnixNano = 0, Nano(After(-time.Duration(i)*day))
				}))
			}
			return LogsRequest(Logs(prod, list...))
		}()}, want: []string{"a: -LOG-001"}},
		{name: "the deprecated key names production", in: []Request{days(Attrs("service.name", "a", "deployment.environment", "prod"), 15, debug)}, want: []string{"a: -LOG-001"}},
	}
	for environment, want := range map[any]string{"production": "-", "prod": "-", "PROD": "-", "Production": "-", "prod-eu": "~", "preprod": "~", " prod": "~", "": "~", 1: "~"} {
		cases = append(cases, verdictCase{
			name: fmt.Sprintf("environment %q", environment),
			in:   []Request{days(production(environment), 15, debug)}, want: []string{"a: " + want + "LOG-001"},
		})
	}
	for _, c := range []struct {
		number int
		text   string
		want   string
	}{
		{4, "", "+"},
		{5, "", "-"},
		{6, "", "-"},
		{7, "", "-"},
		{8, "", "-"},
		{9, "", "+"},
		{1, "", "+"},
		{0, "", "+"},
		{0, "DEBUG", "-"},
		{0, "debug", "-"},
		{0, "Debug", "-"},
		{9, "DEBUG", "-"},
		{5, "INFO", "-"},
		{0, "DEBUG2", "+"},
		{0, " DEBUG", "+"},
		{0, "TRACE", "+"},
	} {
		cases = append(cases, verdictCase{
			name: fmt.Sprintf("severity %d %q", c.number, c.text),
			in:   []Request{days(prod, 15, severity(c.number, c.text))}, want: []string{"a: " + c.want + "LOG-001"},
		})
	}
	requireVerdicts(t, cases)
}

// TestLogRules tests LOG-002, LOG-003 and RES-004.
func TestLogRules(t *testing.T) {
	a := Service("a")
	const mail = "jane@example.com"
	of := func(body any, set ...func(*logspb.LogRecord)) []Request {
		return []Request{LogsRequest(Logs(a, Log(body, set...)))}
	}
	attributes := func(pairs ...any) func(*logspb.LogRecord) {
		return func(r *logspb.LogRecord) { r.Attributes = Attrs(pairs...) }
	}
	scoped := func(scope *commonpb.InstrumentationScope) []Request {
		e := Logs(a, Log("x"))
		e.ScopeLogs[0].Scope = scope
		return []Request{LogsRequest(e)}
	}
	cases := []verdictCase{
		{name: "severity 0", in: of("x", severity(0, "")), want: []string{"a: -LOG-002"}},
		{name: "severity 0 with a text", in: of("x", severity(0, "INFO")), want: []string{"a: -LOG-002"}},
		{name: "severity 1", in: of("x", severity(1, "")), want: []string{"a: +LOG-002"}},
		{name: "severity 24", in: of("x", severity(24, "")), want: []string{"a: +LOG-002"}},
		{name: "severity 99", in: of("x", severity(99, "")), want: []string{"a: +LOG-002"}},
		{name: "one of two without", in: []Request{LogsRequest(Logs(a, Log("x"), Log("x", severity(0, ""))))}, want: []string{"a: -LOG-002"}},
		{name: "no logs", in: one(a), want: []string{"a: ~LOG-001 ~LOG-002 ~LOG-003"}},

		{name: "nothing sensitive", in: of("user logged in", attributes("x", "y")), want: []string{"a: +LOG-003"}},
		{name: "no body", in: of(nil), want: []string{"a: +LOG-003"}},
		{name: "in the body", in: of("mail to " + mail), want: []string{"a: -LOG-003 +RES-010"}},
		{name: "a password in the body", in: of("login with password=hunter2"), want: []string{"a: -LOG-003"}},
		{name: "JSON in the body", in: of(`{"user":"x","password":"hunter2"}`), want: []string{"a: -LOG-003"}},
		{name: "a map in the body", in: of(Attrs("user", "x", "password", "hunter2")), want: []string{"a: -LOG-003"}},
		{name: "a nested map in the body", in: of(Attrs("a", []any{Attrs("b", mail)})), want: []string{"a: -LOG-003"}},
		{name: "an array in the body", in: of([]any{"x", []any{mail}}), want: []string{"a: -LOG-003"}},
		{name: "a flag and its value in the body", in: of([]any{"login", "--password", "x"}), want: []string{"a: -LOG-003"}},
		{name: "a card as the body", in: of(4111111111111111), want: []string{"a: -LOG-003"}},
		{name: "an int as the body", in: of(42), want: []string{"a: +LOG-003"}},
		{name: "bytes as the body", in: of([]byte(mail)), want: []string{"a: +LOG-003"}},
		{name: "in an attribute", in: of("x", attributes("x", mail)), want: []string{"a: -LOG-003"}},
		{name: "by an attribute's name", in: of("x", attributes("http.request.header.authorization", "Zm9v")), want: []string{"a: -LOG-003"}},
		{name: "in the event name", in: of("x", func(r *logspb.LogRecord) { r.EventName = mail }), want: []string{"a: -LOG-003"}},
		{name: "in the severity text, which is not looked at", in: of("x", severity(9, mail)), want: []string{"a: +LOG-003"}},
		{name: "in the scope's name", in: scoped(&commonpb.InstrumentationScope{Name: mail}), want: []string{"a: -LOG-003"}},
		{name: "in the scope's version", in: scoped(&commonpb.InstrumentationScope{Version: mail}), want: []string{"a: -LOG-003"}},
		{name: "in the scope's attributes", in: scoped(&commonpb.InstrumentationScope{Attributes: Attrs("x", mail)}), want: []string{"a: -LOG-003"}},
	}
	for key, want := range map[string]string{"host.name": "-", "k8s.pod.label.app": "-", "service.version": "+", "exception.type": "+", "my.key": "+"} {
		cases = append(cases,
			verdictCase{name: "RES-004 on a record: " + key, in: of("x", attributes(key, "x")), want: []string{"a: " + want + "RES-004"}},
			verdictCase{name: "RES-004 in a body: " + key, in: of(Attrs(key, "x")), want: []string{"a: +RES-004"}})
	}
	requireVerdicts(t, cases)
}
