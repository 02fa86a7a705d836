// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/offline"
	"assay/internal/report"
	. "assay/internal/rules/rulestest"
)

// scoreText scores one input.
func scoreText(t *testing.T, input []byte) (*report.Report, error) {
	t.Helper()
	return offline.Score(t.Context(), offline.Config{Now: After(time.Hour), MaxRequest: 1 << 20, Inputs: []offline.Input{{
		Name: "input", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(input)), nil },
	}}})
}

// framed returns messages as the Collector's file exporter writes them.
func framed(messages ...[]byte) []byte {
	var b []byte
	for _, m := range messages {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(m))), m...)
	}
	return b
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zstandard(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

// TestFormats reads the same span and log record in every form.
func TestFormats(t *testing.T) {
	spans, logs := Traces(Spans(Service("a"), Span(1, 1, 0))), LogsRequest(Logs(Service("a"), Log("x")))
	traces, records := ptraceotlp.NewExportRequest(), plogotlp.NewExportRequest()
	require.NoError(t, traces.UnmarshalProto(spans.Body))
	require.NoError(t, records.UnmarshalProto(logs.Body))
	spanText, err := traces.MarshalJSON()
	require.NoError(t, err)
	logText, err := records.MarshalJSON()
	require.NoError(t, err)
	both := bytes.Join([][]byte{spanText[:len(spanText)-1], logText[1:]}, []byte(","))
	const mark = "\xef\xbb\xbf"
	text := func(parts ...string) []byte {
		return []byte(strings.NewReplacer("SPAN", string(spanText), "LOG", string(logText), "BOM", mark).Replace(strings.Join(parts, "")))
	}
	for name, input := range map[string][]byte{
		"lines":                       text("SPAN\nLOG\n"),
		"an array":                    text("[SPAN,LOG]"),
		"empty requests":              text("{}\nSPAN\n{ }\n[{},LOG]"),
		"both in an object":           both,
		"both in an object, reversed": bytes.Join([][]byte{logText[:len(logText)-1], spanText[1:]}, []byte(",")),
		"an array over lines":         text(" \n[ \r\n SPAN\n,\tLOG ]\n"),
		"arrays and lines":            text("[SPAN][]\nLOG[ ]"),
		"a mark":                      text("BOMSPAN\nLOG"),
		"a mark in each file":         text("BOMSPAN\nBOMLOG\nBOM"),
		"a mark before an array":      text("BOM[SPAN,LOG]"),
		"marks in an array":           text("BOM[BOMSPAN, BOM LOGBOM]"),
		"gzip and a mark":             zipped(text("BOM[SPAN,LOG]")),
		"length prefixes":             framed(spans.Body, logs.Body),
		"length prefixes, empty one":  framed(spans.Body, nil, logs.Body),
		"length prefixes and gzip":    zipped(framed(spans.Body, logs.Body)),
		"prefixes and zstd":           zstandard(framed(spans.Body, logs.Body)),
		"messages of zstd":            framed(zstandard(spans.Body), zstandard(logs.Body)),
		"messages of JSON and zstd":   framed(zstandard(spanText), zstandard(text("BOMLOG"))),
		"messages of JSON":            framed(text("BOM[SPAN]"), logText),
		"messages of different forms": framed(spans.Body, zipped(logText)),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := scoreText(t, input)
			require.NoError(t, err)
			require.EqualValues(t, 1, r.Totals.Spans)
			require.EqualValues(t, 1, r.Totals.LogRecords)
			require.NotNil(t, serviceOf(r, "a"))
		})
	}
}

// TestWindows checks that small messages of zstd with large windows do not allocate a window each.
func TestWindows(t *testing.T) {
	body := Traces(Spans(Service("a"), Span(1, 1, 0))).Body
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3}                // a window of 8 MiB, no size of the content
	frame = append(frame, byte(1|len(body)<<3), byte(len(body)>>5), 0) // the last block, without compression
	frame = append(frame, body...)
	allocated := func(messages int) uint64 {
		input := bytes.Repeat(framed(frame), messages)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := scoreText(t, input)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.EqualValues(t, messages, r.Totals.Spans)
		return after.TotalAlloc - before.TotalAlloc
	}
	require.Less(t, allocated(100), 2*allocated(1)+100<<20)
}

// TestAmbiguous reads binary requests that are valid as requests of other signals, too.
func TestAmbiguous(t *testing.T) {
	const name = "queue.length.max" // 16 bytes, as a trace id
	described := Gauge(name, "1", Point(T0))
	described.Description = "8 bytes."
	accented := Gauge("requêtes.durée", "s", Point(T0)) // 16 bytes, too
	accented.Description = "latence."
	bare := &tracepb.Span{TraceId: TraceID(1), SpanId: SpanID(1)}
	for text, c := range map[string]struct {
		request Request
		want    report.Totals
	}{
		"gauge":             {MetricsRequest(Metrics(Service("a"), Gauge(name, "1", Point(T0)))), report.Totals{MetricDataPoints: 1}},
		"described gauge":   {MetricsRequest(Metrics(Service("a"), described)), report.Totals{MetricDataPoints: 1}},
		"accented gauge":    {MetricsRequest(Metrics(Service("a"), accented)), report.Totals{MetricDataPoints: 1}},
		"log record":        {LogsRequest(Logs(Service("a"), &logspb.LogRecord{Body: Value("x")})), report.Totals{LogRecords: 1}},
		"span without time": {Traces(Spans(Service("a"), bare)), report.Totals{Spans: 1}},
	} {
		t.Run(text, func(t *testing.T) {
			r, err := scoreText(t, c.request.Body)
			require.NoError(t, err)
			c.want.Bytes = uint64(len(c.request.Body))
			require.Equal(t, c.want, r.Totals)
		})
	}
}

// TestBinaryLikeJSON reads a binary request whose lengths are the first characters of a JSON object.
func TestBinaryLikeJSON(t *testing.T) {
	span := Span(1, 1, 0)
	span.Name = strings.Repeat("a", 26)
	body := Traces(Spans(Attrs("service.name", "fourteen_bytes"), span)).Body
	require.Equal(t, "\n{\n\"", string(body[:4]))
	r, err := scoreText(t, body)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Totals.Spans)
}

// TestUnreadable checks that errors name the problem and its location.
func TestUnreadable(t *testing.T) {
	body := LogsRequest(Logs(Service("a"), Log("x"))).Body
	two := framed(body, body)
	const empty = `{"resourceLogs":[]}`
	for name, c := range map[string]struct {
		input []byte
		want  string
	}{
		"ends in a length":             {append(framed(body), 0, 0), fmt.Sprintf("byte %d: input ends within the length of a message", 4+len(body))},
		"ends in a message":            {two[:len(two)-1], fmt.Sprintf("byte %d: input ends within a message of %d bytes", len(two)-1, len(body))},
		"too long a message":           {[]byte{1, 0, 0, 0, 1}, "byte 0: not OTLP: neither a request nor a message of at most 1048576 bytes"},
		"too long once decompressed":   {framed(zstandard(bytes.Repeat([]byte{' '}, 2<<20))), "byte 4: request is longer than 1048576 bytes"},
		"a broken message":             {framed(body, []byte("\x0a\x05x")), fmt.Sprintf("byte %d: ", 9+len(body))},
		"an unknown message":           {framed([]byte("\x1a\x01x")), "byte 4: not an OTLP request: none of its fields is known"},
		"an unknown request":           {[]byte("\x1a\x01x\x22\x00"), "byte 0: not an OTLP request: none of its fields is known"},
		"an array that does not end":   {[]byte("[" + empty), fmt.Sprintf("byte %d: input ends within an array of requests", 1+len(empty))},
		"two commas":                   {[]byte("[" + empty + ",,"), `unexpected ','`},
		"no comma":                     {[]byte("[" + empty + empty), `unexpected '{'`},
		"a comma at the end":           {[]byte("[" + empty + ",]"), `unexpected ']'`},
		"a comma outside":              {[]byte(empty + ","), `unexpected ','`},
		"the end of no array":          {[]byte(empty + "]"), `unexpected ']'`},
		"an array in an array":         {[]byte("[" + empty + ",[" + empty + "]]"), `unexpected '['`},
		"a request that does not end":  {[]byte(empty + "\n" + `{"resourceLogs":[{"resource":` + "\n" + empty), fmt.Sprintf("byte %d: input ends within a request", len(empty)+1)},
		"a request with a part lost":   {[]byte(empty + "\n" + `{"resourceLogs":[{]}` + "\n" + empty), fmt.Sprintf("byte %d: unexpected ']' in the request at byte %d", len(empty)+19, len(empty)+1)},
		"half a mark":                  {[]byte(empty + "\xef\xbb"), "input ends within"},
		"a broken mark":                {[]byte(empty + "\xef\xbb{"), "unexpected '{'"},
		"UTF-16":                       {[]byte("\xff\xfe{\x00}\x00"), "this looks like UTF-16 text"},
		"profiles":                     {[]byte(`{"resourceProfiles":[],"dictionary":{}}`), "this looks like profiles in OTLP/JSON"},
		"Jaeger":                       {[]byte(`{"data":[{"traceID":"0af7","spans":[{"traceID":"0af7","operationName":"GET /"}],"processes":{}}]}`), "this looks like traces in Jaeger's JSON"},
		"Zipkin":                       {[]byte(` [ {"traceId":"0af7","id":"1","localEndpoint":{"serviceName":"a"}}]`), "this looks like traces in Zipkin's JSON"},
		"a console exporter":           {[]byte("{\n  \"Name\": \"a\",\n  \"SpanContext\": {\"TraceID\": \"0af7\"}}"), "output of an SDK's console exporter"},
		"Prometheus":                   {[]byte("# HELP up x\n# TYPE up gauge\nup 1\n"), "text format of Prometheus"},
		"Prometheus without comments":  {[]byte("up{job=\"a\"} 1\n"), "text format of Prometheus"},
		"debug exporter":               {[]byte("ResourceSpans #0\nResource SchemaURL: \n"), "output of the Collector's debug exporter"},
		"HTML":                         {zipped([]byte("<!DOCTYPE html>\n<html><body>404</body></html>")), "an HTML page"},
		"compressed twice":             {zipped(zipped(body)), "compressed twice"},
		"logs":                         {[]byte("2026-11-23 10:00:00 INFO started\nlistening 8080\n"), "plain text, such as logs"},
		"logs in JSON":                 {[]byte(`{"level":"info","msg":"started"}` + "\n"), "logs in JSON"},
		"other JSON":                   {[]byte(`[1,2,3]`), "JSON, but not OTLP/JSON"},
		"a response":                   {[]byte(`{"partialSuccess":{}}`), "a response of an OTLP receiver"},
		"a ZIP archive":                {[]byte("PK\x03\x04\x14\x00"), "a ZIP archive"},
		"JSON with other names":        {[]byte(`{"resource":[]}`), "found none of resourceSpans, resourceMetrics and resourceLogs"},
		"a good request, then another": {[]byte(empty + "\n" + `{"traceId":"1","id":"2","duration":3}`), fmt.Sprintf("byte %d: not OTLP: this looks like traces in Zipkin's JSON", len(empty)+1)},
		"zeros":                        {make([]byte, 1<<20), "all messages are empty"},
		"white space":                  {[]byte(" \n\n"), "white space"},
		"nothing":                      {nil, "byte 0: input is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scoreText(t, c.input)
			var input *offline.InputError
			require.ErrorAs(t, err, &input)
			require.ErrorContains(t, err, c.want)
			require.True(t, strings.HasPrefix(err.Error(), fmt.Sprintf("input: byte %d: ", input.Offset)), err)
		})
	}
}

// TestBrokenInput: an input that can be opened but not read to its end is unreadable at an offset.
func TestBrokenInput(t *testing.T) {
	const text = `{"resourceLogs":[]}`
	for want, open := range map[string]func() (io.ReadCloser, error){
		"a.jsonl: byte 19: input/output error": func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(&fs.PathError{Op: "read", Path: "/a.jsonl", Err: syscall.EIO}))), nil
		},
		"a.jsonl: no such file or directory": func() (io.ReadCloser, error) {
			return nil, &fs.PathError{Op: "open", Path: "/a.jsonl", Err: syscall.ENOENT}
		},
	} {
		_, err := offline.Score(t.Context(), offline.Config{Inputs: []offline.Input{{Name: "a.jsonl", Open: open}}})
		require.EqualError(t, err, want)
	}
}

// TestAt ends the window before some of the telemetry.
func TestAt(t *testing.T) {
	const day = 24 * time.Hour
	unset := severity(0, "")
	inputs := []Request{
		stamped("old", Nano(After(-40*day))), stamped("a", Nano(After(-20*day))), stamped("b", Nano(T0), unset),
		Traces(Spans(Service("c"), Span(1, 1, 0, ending(T0)))), stamped("d", 0, unset),
	}
	score := func(at time.Time) *report.Report {
		cfg := offline.Config{Now: After(time.Hour), At: at}
		for _, q := range inputs {
			cfg.Inputs = append(cfg.Inputs, offline.Input{Name: "x", Request: q.Body, Signal: q.Signal})
		}
		r, err := offline.Score(t.Context(), cfg)
		require.NoError(t, err)
		return r
	}
	names := func(r *report.Report) (names []string) {
		for _, s := range r.Services {
			names = append(names, s.Name)
		}
		return names
	}
	r := score(time.Time{})
	require.Equal(t, []string{"a", "b", "c", "d"}, names(r))
	require.Equal(t, report.Outside{Records: 1, Oldest: After(-40 * day), Newest: After(-40 * day)}, r.Outside)
	r = score(After(-15 * day))
	require.Equal(t, []string{"a", "d", "old"}, names(r), "later telemetry does not count")
	require.Equal(t, After(-15*day), r.Window.End)
	require.Equal(t, report.Outside{Records: 2, Oldest: T0, Newest: T0}, r.Outside)
	r = score(After(365 * day))
	require.Equal(t, []string{"d"}, names(r), "without a time")
	require.EqualValues(t, 4, r.Outside.Records)
	require.Equal(t, After(-40*day), r.Outside.Oldest)
	require.Equal(t, T0, r.Outside.Newest)
}

// FuzzRead reads arbitrary input: it does not panic, and each error is an input error.
func FuzzRead(f *testing.F) {
	body := LogsRequest(Logs(Service("a"), Log("x"))).Body
	f.Add(body)
	f.Add(framed(body, zstandard(body)))
	f.Add([]byte("\xef\xbb\xbf[{\"resourceLogs\":[]},{}]"))
	f.Add(zipped([]byte(`[{"resourceSpans":[]}]`)))
	f.Fuzz(func(t *testing.T, input []byte) {
		_, err := scoreText(t, input)
		var at *offline.InputError
		require.True(t, err == nil || errors.As(err, &at), err)
		if at != nil {
			require.GreaterOrEqual(t, at.Offset, int64(0))
		}
	})
}
