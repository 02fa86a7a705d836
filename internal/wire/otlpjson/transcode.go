// SPDX-License-Identifier: Apache-2.0

package otlpjson

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"assay/internal/wire"
)

// ErrTooLarge reports that the protobuf form of a request exceeds its limit.
var ErrTooLarge = errors.New("request exceeds the size limit as protobuf")

// Transcode appends the protobuf form of a JSON request of the given signal to dst and returns the extended slice.
// The input is one JSON object, optionally surrounded by white space. The output is usually half the size of the
// input and at most four times its size (an array of short numbers). If it exceeds limit bytes, Transcode returns
// ErrTooLarge. A limit of 0 means no limit.
//
// On malformed input Transcode returns dst unchanged and a *wire.Error with the byte offset in json and the field in
// OTLP/JSON names. Values nested deeper than wire.MaxDepth are malformed. When ctx ends, Transcode stops within a few
// thousand values and returns an error that wraps the context's cause. Transcode is safe for concurrent use.
func Transcode(ctx context.Context, signal wire.Signal, dst, json []byte, limit int) ([]byte, error) {
	request, ok := requests[signal]
	if !ok {
		return dst, &wire.Error{Field: signal.String(), Reason: "not a signal"}
	}
	t := transcoder{scanner: scanner{in: json, ctx: ctx}, out: dst, limit: math.MaxInt}
	if limit > 0 {
		t.limit = len(dst) + limit
	}
	err := t.message(request)
	if err == nil {
		if t.peek(); t.pos < len(json) {
			err = t.unexpected("the end of the input")
		}
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return dst, fmt.Errorf("read OTLP/JSON: %w", cause)
		}
		if len(t.out) > t.limit {
			return dst, ErrTooLarge
		}
		if err.Field == "" {
			err.Field = request.name
		}
		return dst, err
	}
	t.fill()
	if len(t.out) > t.limit {
		return dst, ErrTooLarge
	}
	return t.out, nil
}

// Detect returns the signals of an OTLP/JSON request, which are one in all but unusual files, in the order of the
// top-level keys that name them: resourceSpans, resourceMetrics and resourceLogs, or their snake_case forms. An object
// without keys is an empty request of no signal. Detect returns a *wire.Error if the input is not a JSON object, or has
// only other keys. It does not report malformed JSON behind the first key that names a signal.
func Detect(json []byte) ([]wire.Signal, error) {
	signals, err := detect(&scanner{in: json, ctx: context.Background()})
	if err != nil && len(signals) == 0 {
		err.Field = "request"
		return nil, err
	}
	return signals, nil
}

func detect(s *scanner) (signals []wire.Signal, err *wire.Error) {
	if err := s.open('{'); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		more, err := s.next(first, '}')
		if err != nil {
			return signals, err
		}
		if !more {
			if !first && len(signals) == 0 {
				return nil, fail(s.pos, "found none of resourceSpans, resourceMetrics and resourceLogs")
			}
			return signals, nil
		}
		key, escaped, err := s.text()
		if err != nil {
			return signals, err
		}
		if escaped {
			key = unescape(nil, key)
		}
		var signal wire.Signal
		switch string(key) {
		case "resourceSpans", "resource_spans":
			signal = wire.Traces
		case "resourceMetrics", "resource_metrics":
			signal = wire.Metrics
		case "resourceLogs", "resource_logs":
			signal = wire.Logs
		}
		if signal != 0 && !slices.Contains(signals, signal) {
			signals = append(signals, signal)
		}
		if err := s.colon(); err != nil {
			return signals, err
		}
		if err := s.skip(); err != nil {
			return signals, err
		}
	}
}

type transcoder struct {
	scanner
	out     []byte
	scratch []byte // for keys with escapes
	depth   int    // number of arrays and key-value lists around the current value
	gaps    []gap  // in the order of the ends of the fields
	missing int    // bytes to be inserted in out for the lengths in gaps
	slow    int    // slow numbers so far, see maxSlow
	limit   int    // of len(out)
}

// gap is a length that needs more than the one byte that begin reserves.
type gap struct {
	at     int // offset of the reserved byte in out
	length int
}

// message consumes an object and appends its fields.
func (t *transcoder) message(s *schema) *wire.Error {
	if err := t.open('{'); err != nil {
		return err
	}
	if s.nested {
		if t.depth == wire.MaxDepth {
			return fail(t.pos-1, "value is nested more than %d deep", wire.MaxDepth)
		}
		t.depth++
		defer func() { t.depth-- }()
	}
	for first := true; ; first = false {
		more, err := t.next(first, '}')
		if err != nil || !more {
			return err
		}
		if err := t.step(); err != nil {
			return err
		}
		key, escaped, err := t.text()
		if err != nil {
			return err
		}
		if escaped {
			t.scratch = unescape(t.scratch[:0], key)
			key = t.scratch
		}
		if err := t.colon(); err != nil {
			return err
		}
		f, known := s.fields[string(key)]
		if !known {
			if err := t.skip(); err != nil {
				return err
			}
			continue
		}
		if err := t.field(f); err != nil {
			if err.Field == "" {
				err.Field = s.name + "." + f.name
			}
			return err
		}
	}
}

// field consumes the value of a field and appends the field.
func (t *transcoder) field(f *field) *wire.Error {
	if null, err := t.null(); null || err != nil {
		return err
	}
	if !f.repeated {
		return t.value(f, false)
	}
	packed := f.kind != protoreflect.MessageKind && f.kind != protoreflect.StringKind
	var start mark
	if packed {
		start = t.begin(f.number)
	}
	if err := t.open('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := t.next(first, ']')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := t.step(); err != nil {
			return err
		}
		if len(t.out) > t.limit {
			return fail(t.pos, "%v", ErrTooLarge)
		}
		if err := t.item(f, packed); err != nil {
			return err
		}
	}
	if packed {
		t.finish(start)
	}
	return nil
}

// item consumes one item of an array. A null among messages or strings is an empty message or string.
func (t *transcoder) item(f *field, packed bool) *wire.Error {
	if packed {
		return t.value(f, true)
	}
	null, err := t.null()
	if err != nil {
		return err
	}
	if null {
		t.finish(t.begin(f.number))
		return nil
	}
	return t.value(f, false)
}

// value consumes a non-null value and appends it. A packed value has no tag.
func (t *transcoder) value(f *field, packed bool) *wire.Error {
	t.peek()
	at := t.pos
	tag := func(wireType protowire.Type) {
		if !packed {
			t.out = protowire.AppendTag(t.out, protowire.Number(f.number), wireType)
		}
	}
	switch f.kind {
	case protoreflect.MessageKind:
		start := t.begin(f.number)
		if err := t.message(f.message); err != nil {
			return err
		}
		t.finish(start)
	case protoreflect.StringKind:
		body, escaped, err := t.text()
		if err != nil {
			return err
		}
		start := t.begin(f.number)
		if escaped {
			t.out = unescape(t.out, body)
		} else {
			t.out = append(t.out, body...)
		}
		t.finish(start)
	case protoreflect.BytesKind, traceIDKind, spanIDKind:
		body, escaped, err := t.text()
		if err != nil {
			return err
		}
		if escaped {
			body = unescape(nil, body)
		}
		start := t.begin(f.number)
		if !t.decode(f.kind, body) {
			return fail(at, "%s", malformed[f.kind])
		}
		t.finish(start)
	case protoreflect.BoolKind:
		v := t.peek() == 't'
		if !v && t.peek() != 'f' {
			return t.unexpected("true or false")
		}
		tag(protowire.VarintType)
		t.out = protowire.AppendVarint(t.out, protowire.EncodeBool(v))
		return t.literal(strconv.FormatBool(v))
	case protoreflect.DoubleKind:
		text, err := t.scalar()
		if err != nil {
			return err
		}
		v, reason := t.double(text)
		if reason != "" {
			return fail(at, "%s", reason)
		}
		tag(protowire.Fixed64Type)
		t.out = binary.LittleEndian.AppendUint64(t.out, math.Float64bits(v))
	default:
		v, err := t.integer(f)
		if err != nil {
			return err
		}
		switch f.kind {
		case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
			tag(protowire.Fixed64Type)
			t.out = binary.LittleEndian.AppendUint64(t.out, v)
		case protoreflect.Fixed32Kind:
			tag(protowire.Fixed32Type)
			t.out = binary.LittleEndian.AppendUint32(t.out, uint32(v))
		case protoreflect.Sint32Kind:
			tag(protowire.VarintType)
			t.out = protowire.AppendVarint(t.out, protowire.EncodeZigZag(int64(v)))
		default:
			tag(protowire.VarintType)
			t.out = protowire.AppendVarint(t.out, v)
		}
	}
	return nil
}

// malformed holds the error for an invalid string of a kind.
var malformed = map[protoreflect.Kind]string{
	protoreflect.BytesKind: "not base64",
	traceIDKind:            "trace id is not 32 hex digits",
	spanIDKind:             "span id is not 16 hex digits",
}

// decode appends the bytes that text encodes, and reports whether text is valid.
func (t *transcoder) decode(k protoreflect.Kind, text []byte) bool {
	if k != protoreflect.BytesKind {
		want := 32
		if k == spanIDKind {
			want = 16
		}
		if len(text) != want {
			return len(text) == 0
		}
		for i := 0; i < len(text); i += 2 {
			high, ok := hexDigit(text[i])
			low, ok2 := hexDigit(text[i+1])
			if !ok || !ok2 {
				return false
			}
			t.out = append(t.out, high<<4|low)
		}
		return true
	}
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	var err error
	t.out, err = encoding.AppendDecode(t.out, bytes.TrimRight(text, "=\r\n"))
	return err == nil
}

// integer consumes an integer or an enum name. It returns the 64 bits of the varint or fixed64 that encodes it.
func (t *transcoder) integer(f *field) (uint64, *wire.Error) {
	at := t.pos
	text, err := t.scalar()
	if err != nil {
		return 0, err
	}
	if v, ok := f.enum[string(text)]; ok {
		return uint64(v), nil
	}
	negative, v, ok := integer(text)
	if !ok {
		if f.kind == protoreflect.EnumKind {
			return 0, fail(at, "not a value of the enum")
		}
		return 0, fail(at, "not an integer, or out of range")
	}
	limit, low := uint64(math.MaxUint64), uint64(0) // the largest value, and the magnitude of the smallest
	switch f.kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		limit, low = math.MaxInt32, -math.MinInt32
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		limit, low = math.MaxInt64, -math.MinInt64
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		limit = math.MaxUint32
	}
	if negative {
		limit, v = low, -v
		if -v > limit {
			return 0, fail(at, "integer out of range")
		}
		return v, nil
	}
	if v > limit {
		return 0, fail(at, "integer out of range")
	}
	return v, nil
}

// mark is the start of the payload of a length-delimited field and the value of missing at that point.
type mark struct{ start, missing int }

// begin appends the tag of a length-delimited field and one byte for its length.
func (t *transcoder) begin(number uint8) mark {
	t.out = protowire.AppendTag(t.out, protowire.Number(number), protowire.BytesType)
	t.out = append(t.out, 0)
	return mark{len(t.out), t.missing}
}

// finish sets the length of the field whose payload starts at m. A length of more than one byte is left to fill:
// moving the payload here would move it again for each enclosing field.
func (t *transcoder) finish(m mark) {
	n := len(t.out) - m.start + t.missing - m.missing
	if n < 0x80 {
		t.out[m.start-1] = byte(n)
		return
	}
	t.gaps = append(t.gaps, gap{m.start - 1, n})
	t.missing += protowire.SizeVarint(uint64(n)) - 1
}

// fill inserts the lengths in gaps, from the last one in out to the first, so that each byte moves once.
func (t *transcoder) fill() {
	end := len(t.out)
	t.out = slices.Grow(t.out, t.missing)[:end+t.missing]
	write := func(g gap) {
		copy(t.out[g.at+1+t.missing:], t.out[g.at+1:end])
		t.missing -= protowire.SizeVarint(uint64(g.length)) - 1
		end = g.at
		protowire.AppendVarint(t.out[:g.at+t.missing], uint64(g.length))
	}
	var around []gap // fields that may enclose the current one
	for _, g := range slices.Backward(t.gaps) {
		for n := len(around); n > 0 && around[n-1].at > g.at; n-- {
			write(around[n-1])
			around = around[:n-1]
		}
		around = append(around, g)
	}
	for _, g := range slices.Backward(around) {
		write(g)
	}
}
