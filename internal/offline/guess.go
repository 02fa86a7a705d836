// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"cmp"
	"errors"
	"regexp"
	"slices"
	"unicode/utf8"
)

// maxGuess is the number of bytes that guess looks at.
const maxGuess = 16 << 10

// noOTLPError is the error for an input that looks like something else.
type noOTLPError struct{ kind string }

func (e noOTLPError) Error() string { return "not OTLP: this looks like " + e.kind }

var errEmpty = errors.New("input is empty")

// notOTLP reports whether an input is something else as a whole, not OTLP that is damaged.
func notOTLP(err error) bool {
	e, ok := errors.AsType[*InputError](err)
	return ok && e.Offset == 0 && (errors.Is(err, errEmpty) || errors.As(err, new(noOTLPError)))
}

var (
	prometheusText = regexp.MustCompile(`(?m)^# (HELP|TYPE) \S|^[a-zA-Z_:][a-zA-Z0-9_:]*\{[^}\n]*\} [0-9.eE+-]+`)
	collectorDebug = regexp.MustCompile(`(?m)^Resource(Spans|Metrics|Log|Logs) #[0-9]+`)
)

// guess returns the likely format of an input that is not OTLP, "" if it is unknown. It reads the first bytes only.
func guess(head []byte) string {
	head = head[:min(len(head), maxGuess)]
	for _, kind := range []struct{ prefix, name string }{
		{"\xff\xfe", "UTF-16 text; convert it to UTF-8"},
		{"\xfe\xff", "UTF-16 text; convert it to UTF-8"},
		{"\x1f\x8b", "a file that is compressed twice"},
		{"\x28\xb5\x2f\xfd", "a file that is compressed twice"},
		{"PK\x03\x04", "a ZIP archive; unpack it"},
		{"BZh", "a file compressed with bzip2; decompress it"},
		{"\xfd7zXZ\x00", "a file compressed with xz; decompress it"},
	} {
		if bytes.HasPrefix(head, []byte(kind.prefix)) {
			return kind.name
		}
	}
	if len(head) > 262 && string(head[257:262]) == "ustar" {
		return "a tar archive; unpack it"
	}
	head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	if !isText(head) {
		return ""
	}
	text := bytes.TrimSpace(head)
	lower := bytes.ToLower(text)
	switch {
	case len(text) == 0:
		return "white space"
	case bytes.HasPrefix(lower, []byte("<!doctype html")) || bytes.HasPrefix(lower, []byte("<html")):
		return "an HTML page, such as the error page of a server"
	case text[0] == '<':
		return "XML"
	case collectorDebug.Match(text):
		return "the output of the Collector's debug exporter; its file exporter writes OTLP"
	case text[0] == '{' || text[0] == '[':
		return cmp.Or(guessJSON(text), "JSON, but not OTLP/JSON")
	case prometheusText.Match(text):
		return "metrics in the text format of Prometheus; the Collector's prometheus receiver reads them from their endpoint"
	}
	return "plain text, such as logs; the Collector's filelog receiver and file exporter convert them"
}

// guessJSON returns the likely format of JSON that is not OTLP, "" if it is unknown.
func guessJSON(head []byte) string {
	has := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !bytes.Contains(head, []byte(`"`+key+`"`)) })
	}
	switch {
	case has("resourceProfiles"):
		return "profiles in OTLP/JSON, which no rule evaluates"
	case has("traceID", "operationName"), has("traceID", "processes"):
		return "traces in Jaeger's JSON; send OTLP to a Collector with the file exporter instead"
	case has("traceId", "localEndpoint"), has("traceId", "id", "annotations"), has("traceId", "id", "duration"):
		return "traces in Zipkin's JSON; the Collector's zipkin receiver and file exporter convert them"
	case has("SpanContext"), has("InstrumentationScope"), has("context", "trace_id", "span_id"):
		return "the output of an SDK's console exporter; its OTLP exporter sends OTLP"
	case has("status", "data", "resultType"):
		return "a response of Prometheus"
	case has("partialSuccess"), has("partial_success"):
		return "a response of an OTLP receiver, not a request"
	case has("msg"), has("message"), has("level"), has("severity"):
		return "logs in JSON; the Collector's filelog receiver and file exporter convert them"
	}
	return ""
}

// isText reports whether the beginning of an input is UTF-8 without control characters.
func isText(head []byte) bool {
	for i := 0; i < len(head); {
		r, n := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && n == 1 && (len(head)-i >= utf8.UTFMax || utf8.FullRune(head[i:])) {
			return false
		}
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\x1b' {
			return false
		}
		i += n
	}
	return true
}
