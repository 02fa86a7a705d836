// SPDX-License-Identifier: Apache-2.0

package otlpjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
	"assay/internal/wire/wiretest"
)

// emptyKey matches a member at which pdata stops reading an object.
var emptyKey = regexp.MustCompile(`""\s*:`)

// FuzzTranscode checks that nothing panics, that accepted input is valid JSON and becomes a valid request with as
// many records as pdata finds, and that Transcode accepts all that pdata accepts, apart from the known divergences.
func FuzzTranscode(f *testing.F) {
	for _, r := range append(wiretest.Fixtures(), wiretest.Real()...) {
		if text := toJSON(f, r); len(text) < 8192 {
			f.Add(byte(r.Signal), text)
		}
	}
	f.Add(byte(wire.Traces), []byte(`{"resource_spans":[{"x":[{}, null, -1.5e3],"scope_spans":[{"spans":[{"kind":"SPAN_KIND_CLIENT","name":"\ud83d\ude00"}]}]}]}`))
	f.Fuzz(func(t *testing.T, s byte, text []byte) {
		signal := wire.Signal(s%3 + 1)
		out, err := otlpjson.Transcode(t.Context(), signal, nil, text, 0)
		_, _ = otlpjson.Detect(text)
		if err == nil {
			if !json.Valid(text) {
				t.Error("accepted, but not valid JSON")
			}
			if err := wire.Validate(signal, out); err != nil {
				t.Errorf("output is malformed: %v", err)
			}
			if len(out) > 5*len(text) {
				t.Errorf("%d bytes became %d", len(text), len(out))
			}
		} else {
			var wireErr *wire.Error
			if !errors.As(err, &wireErr) || wireErr.Offset < 0 || wireErr.Offset > len(text) || wireErr.Field == "" || wireErr.Reason == "" {
				t.Errorf("bad error: %+v", err)
			}
		}
		if !json.Valid(text) || emptyKey.Match(text) || bytes.Contains(text, []byte("eprecated")) || bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
			return
		}
		pdata := wiretest.NewPdata(signal)
		if pdata.UnmarshalJSON(text) != nil {
			return
		}
		if err != nil {
			if !strings.Contains(err.Error(), "nested more than") {
				t.Errorf("pdata accepts it, but: %v", err)
			}
			return
		}
		theirs, err := pdata.MarshalProto()
		if err != nil {
			t.Fatal(err)
		}
		want, err := wiretest.DumpPdata(signal, theirs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wiretest.DumpWire(signal, out)
		if err != nil {
			t.Fatal(err)
		}
		if shape(want) != shape(got) {
			t.Errorf("pdata reads:\n%s\ninstead of:\n%s", want, got)
		}
	})
}

// shape returns the kinds of the lines of a dump without their content. Strings that are not UTF-8 and unpaired
// surrogates differ between the two decoders.
func shape(dump string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		kind, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		b.WriteString(kind + "\n")
	}
	return b.String()
}
