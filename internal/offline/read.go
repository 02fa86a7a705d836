// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
)

// countingReader reports the number of bytes read through it.
type countingReader struct {
	r      io.Reader
	report func(n int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.report(int64(n))
	return n, err
}

// readInput calls add for every request of an input with the signal, the uncompressed protobuf bytes, which are valid
// during the call only, and the offset of the request. It returns an *InputError for unreadable input.
func readInput(ctx context.Context, input Input, counter *countingReader, limit int64, add func(wire.Signal, []byte, int64) error) error {
	fail := func(offset int64, err error) error {
		if w, ok := errors.AsType[*wire.Error](err); ok && !errors.Is(err, errJSON) {
			offset += int64(w.Offset)
		}
		return &InputError{Name: input.Name, Offset: offset, Err: err}
	}
	if input.Request != nil {
		if err := add(input.Signal, input.Request, 0); err != nil {
			return fail(0, err)
		}
		return nil
	}
	f, err := input.Open()
	if err != nil {
		return fail(0, err)
	}
	defer func() { _ = f.Close() }()
	counter.r = f
	var file decompressor
	plain, err := file.decompress(bufio.NewReaderSize(counter, 1<<16))
	if err != nil {
		return fail(0, err)
	}
	defer file.close()
	var position int64
	r := bufio.NewReaderSize(&countingReader{plain, func(n int64) { position += n }}, 1<<16)
	head, err := r.Peek(r.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(position, err)
	}
	if len(head) == 0 {
		return fail(0, errEmpty)
	}
	p := &parser{name: input.Name, limit: limit, add: add, fail: fail}
	defer p.messages.close()
	switch {
	case looksLikeJSON(head):
		return p.json(ctx, r, 0)
	case head[0] <= maxPrefixByte:
		return p.prefixed(ctx, r)
	}
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return fail(position, err)
	}
	if int64(len(body)) > limit {
		if kind := guess(head); kind != "" {
			return fail(0, noOTLPError{kind})
		}
		return fail(limit, fmt.Errorf("request is longer than %d bytes", limit))
	}
	return p.protobuf(body, 0)
}

// parser passes the requests of one input on.
type parser struct {
	name  string
	limit int64 // bytes of a request
	add   func(signal wire.Signal, body []byte, offset int64) error
	fail  func(offset int64, err error) error

	messages decompressor
}

// maxPrefixByte is the maximum first byte of an input with length prefixes. A length of 2^24 and more begins with the
// bytes after 0, and no request is longer than 64 MiB by default. A protobuf message without a prefix begins with a tag,
// which is at least 8.
const maxPrefixByte = 7

// prefixed reads messages that a length of four bytes in big-endian order precedes, as the Collector's file exporter
// writes them for protobuf, and for JSON that it compresses. Each message may be compressed.
// Source: https://github.com/open-telemetry/opentelemetry-collector-contrib/blob/main/exporter/fileexporter/file_writer.go
func (p *parser) prefixed(ctx context.Context, r io.Reader) error {
	var prefix [4]byte
	var message bytes.Buffer
	some := false // message is not empty
	for offset := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch _, err := io.ReadFull(r, prefix[:]); {
		case errors.Is(err, io.EOF) && !some:
			return p.fail(0, errors.New("not OTLP: all messages are empty"))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return p.fail(offset, fmt.Errorf("input ends within the length of a message: %w", err))
		}
		size := int64(binary.BigEndian.Uint32(prefix[:]))
		if size > p.limit {
			return p.fail(offset, fmt.Errorf("not OTLP: neither a request nor a message of at most %d bytes with its length before it", p.limit))
		}
		offset += int64(len(prefix))
		if size == 0 {
			continue
		}
		some = true
		message.Reset()
		switch n, err := message.ReadFrom(io.LimitReader(r, size)); {
		case err != nil:
			return p.fail(offset+n, err)
		case n < size:
			return p.fail(offset+n, fmt.Errorf("input ends within a message of %d bytes: %w", size, io.ErrUnexpectedEOF))
		}
		if err := p.message(ctx, message.Bytes(), offset); err != nil {
			return err
		}
		offset += size
	}
}

// message reads one message, at an offset of the input.
func (p *parser) message(ctx context.Context, message []byte, offset int64) error {
	plain, err := p.messages.decompress(bufio.NewReader(bytes.NewReader(message)))
	if err != nil {
		return p.fail(offset, err)
	}
	body, err := io.ReadAll(io.LimitReader(plain, p.limit+1))
	switch {
	case err != nil:
		return p.fail(offset, err)
	case int64(len(body)) > p.limit:
		return p.fail(offset, fmt.Errorf("request is longer than %d bytes", p.limit))
	case looksLikeJSON(body):
		return p.json(ctx, bufio.NewReader(bytes.NewReader(body)), offset)
	}
	return p.protobuf(body, offset)
}

// protobuf reads one request.
func (p *parser) protobuf(body []byte, offset int64) error {
	signal, err := detect(p.name, body)
	if err == nil {
		entries, bad := wire.Request(body)
		if _, known := entries.Next(); bad == nil && !known && len(body) > 0 {
			err = errors.New("not an OTLP request: none of its fields is known, as in a message of another type")
		}
	}
	if err != nil {
		if kind := guess(body[:min(len(body), maxGuess)]); kind != "" {
			return p.fail(offset, noOTLPError{kind})
		}
		return p.fail(offset, err)
	}
	if err := p.add(signal, body, offset); err != nil {
		return p.fail(offset, err)
	}
	return nil
}

// decompressor decompresses one stream after the other. It allocates the window of zstd, which a message of a few bytes
// may declare as 256 MiB, once for all of them.
type decompressor struct{ zstd *zstd.Decoder }

// decompress detects gzip and zstd by their magic numbers and decompresses them.
func (d *decompressor) decompress(r *bufio.Reader) (io.Reader, error) {
	magic, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	case !bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return r, nil
	case d.zstd == nil:
		d.zstd, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	default:
		err = d.zstd.Reset(r)
	}
	return d.zstd, err
}

func (d *decompressor) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// byteOrderMark is a UTF-8 byte order mark, which some programs put at the beginning of each file.
const byteOrderMark = "\xef\xbb\xbf"

// looksLikeJSON reports whether the input is JSON rather than protobuf: an object, or an array of objects. A protobuf
// request begins with the tag 0x0a, which JSON reads as a line feed, so the bytes after it decide: lengths can be '{' and
// '"', but a tag follows, and a string of JSON has no control characters.
func looksLikeJSON(head []byte) bool {
	const space = " \t\r\n"
	trim := func(text []byte) []byte {
		for {
			rest, marked := bytes.CutPrefix(bytes.TrimLeft(text, space), []byte(byteOrderMark))
			if text = rest; !marked {
				return text
			}
		}
	}
	text := trim(head)
	if rest, ok := bytes.CutPrefix(text, []byte("[")); ok {
		text = trim(rest)
		if len(text) == 0 || text[0] == ']' {
			return true
		}
	}
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	rest := bytes.TrimLeft(text[1:], space)
	if len(rest) == 0 {
		return true
	}
	return rest[0] == '}' || rest[0] == '"' && (len(rest) == 1 || rest[1] >= ' ')
}

// signals in the order of detection.
var signals = []wire.Signal{wire.Traces, wire.Metrics, wire.Logs}

// detect returns the signal as which a binary request is valid. If there are several, as for a request without
// records, it considers the file name and then the first record: a gauge whose name has 16 bytes is valid as a span.
func detect(name string, body []byte) (wire.Signal, error) {
	var fits []wire.Signal
	var first error
	farthest := -1
	for _, s := range signals {
		err := wire.Validate(s, body)
		if err == nil {
			fits = append(fits, s)
			continue
		}
		if w, ok := errors.AsType[*wire.Error](err); ok && w.Offset > farthest { // report the error of the signal that was valid the furthest
			farthest, first = w.Offset, err
		}
	}
	if len(fits) == 0 {
		return 0, fmt.Errorf("not an OTLP request: %w", first)
	}
	base := strings.ToLower(path.Base(name))
	for _, s := range fits {
		if strings.Contains(base, strings.TrimSuffix(s.String(), "s")) {
			return s, nil
		}
	}
	if len(fits) > 1 {
		for _, s := range fits {
			if plausible(s, firstRecord(body)) {
				return s, nil
			}
		}
	}
	return fits[0], nil
}

// firstRecord returns the first record of a valid request, empty if it has none.
func firstRecord(body []byte) wire.Message {
	entries, _ := wire.Request(body)
	for m, ok := entries.Next(); ok; m, ok = entries.Next() {
		var entry wire.ResourceEntry
		_ = entry.Decode(m)
		for m, ok := entry.Scopes.Next(); ok; m, ok = entry.Scopes.Next() {
			var scope wire.ScopeEntry
			_ = scope.Decode(m)
			if record, ok := scope.Records.Next(); ok {
				return record
			}
		}
	}
	return wire.Message{}
}

// plausible reports whether a record, which is valid as one of the signal, has what every record of the signal has. A
// trace id that is text is the name of a metric.
func plausible(signal wire.Signal, record wire.Message) bool {
	switch signal {
	case wire.Traces:
		var span wire.Span
		_ = span.Decode(record)
		return len(span.SpanID) > 0 && !isText(span.TraceID)
	case wire.Metrics:
		var metric wire.Metric
		_ = metric.Decode(record)
		return len(metric.Name) > 0
	}
	return len(record.Bytes) > 0
}

// errJSON marks errors whose offset already refers to the JSON text.
var errJSON = errors.New("not OTLP/JSON")

// json reads consecutive requests, separated by newlines or other white space, or an array of requests. An object may
// hold requests of several signals. base is the
// offset of r in the input.
func (p *parser) json(ctx context.Context, r *bufio.Reader, base int64) error {
	s := jsonSplitter{r: r, limit: p.limit, offset: base}
	var body []byte
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, offset, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return p.fail(s.offset, err)
		}
		signals, err := otlpjson.Detect(text)
		if err != nil {
			kind := guessJSON(text[:min(len(text), maxGuess)])
			if kind == "" && json.Valid(text) {
				kind = "JSON, but not OTLP/JSON: found none of resourceSpans, resourceMetrics and resourceLogs"
			}
			if kind != "" {
				return p.fail(offset, noOTLPError{kind})
			}
		}
		for _, signal := range signals {
			if body, err = otlpjson.Transcode(ctx, signal, body[:0], text, 0); err != nil {
				break
			}
			if err := p.add(signal, body, offset); err != nil {
				return p.fail(offset, fmt.Errorf("%w: %w", errJSON, err))
			}
		}
		if err != nil {
			if w, ok := errors.AsType[*wire.Error](err); ok {
				offset += int64(w.Offset)
			}
			return p.fail(offset, fmt.Errorf("%w: %w", errJSON, err))
		}
	}
}

// jsonSplitter splits a stream into its JSON objects by matching brackets outside of strings. The objects are at the top
// level or in arrays there. It does not validate them otherwise.
type jsonSplitter struct {
	r      *bufio.Reader
	limit  int64
	offset int64 // offset in the stream; after an error, that of the error
	buf    []byte
	open   []byte // closing brackets that are expected
	array  arrayState
	mark   int // bytes of a byte order mark read
}

// arrayState is the place in a top-level array.
type arrayState int

const (
	noArray     arrayState = iota
	arrayBegun             // an object or the end follows
	arrayObject            // after an object
	arrayComma             // an object follows
)

// between reads a byte between two objects. It reports whether the byte begins an object, or an error for one that
// cannot stand there.
func (s *jsonSplitter) between(c byte) (object bool, err error) {
	if s.mark > 0 || c == byteOrderMark[0] {
		if c != byteOrderMark[s.mark] {
			return false, fmt.Errorf("unexpected %q at the start of a request", rune(c))
		}
		s.mark = (s.mark + 1) % len(byteOrderMark)
		return false, nil
	}
	switch {
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		return false, nil
	case c == '{' && s.array != arrayObject:
		if s.array != noArray {
			s.array = arrayObject
		}
		return true, nil
	case c == '[' && s.array == noArray:
		s.array = arrayBegun
		return false, nil
	case c == ',' && s.array == arrayObject:
		s.array = arrayComma
		return false, nil
	case c == ']' && (s.array == arrayBegun || s.array == arrayObject):
		s.array = noArray
		return false, nil
	}
	return false, fmt.Errorf("unexpected %q at the start of a request", rune(c))
}

// next returns the next object, valid until the next call, and its offset, or io.EOF at the end. The offset of an object
// that does not end is that of its start.
func (s *jsonSplitter) next() (text []byte, offset int64, err error) {
	s.buf, s.open = s.buf[:0], s.open[:0]
	quoted, escaped := false, false
	for {
		chunk, err := s.r.Peek(1)
		if err == nil {
			chunk, _ = s.r.Peek(s.r.Buffered())
		}
		if err != nil {
			switch {
			case errors.Is(err, io.EOF) && len(s.buf) > 0:
				s.offset = offset
				return nil, 0, fmt.Errorf("input ends within a request: %w", io.ErrUnexpectedEOF)
			case errors.Is(err, io.EOF) && (s.array != noArray || s.mark > 0):
				return nil, 0, fmt.Errorf("input ends within an array of requests: %w", io.ErrUnexpectedEOF)
			}
			return nil, 0, err
		}
		for i, c := range chunk {
			if len(s.open) == 0 {
				object, err := s.between(c)
				if err != nil {
					s.offset += int64(i)
					return nil, 0, err
				}
				if object {
					offset = s.offset + int64(i)
					s.open = append(s.open, '}')
					s.buf = append(s.buf, c)
				}
				continue
			}
			s.buf = append(s.buf, c)
			switch {
			case escaped:
				escaped = false
			case quoted:
				switch c {
				case '\\':
					escaped = true
				case '"':
					quoted = false
				}
			case c == '"':
				quoted = true
			case c == '{' || c == '[':
				s.open = append(s.open, c+2) // the closing bracket
			case c == '}' || c == ']':
				last := len(s.open) - 1
				if c != s.open[last] {
					s.offset += int64(i)
					return nil, 0, fmt.Errorf("unexpected %q in the request at byte %d", rune(c), offset)
				}
				if s.open = s.open[:last]; last == 0 {
					s.consume(i + 1)
					return s.buf, offset, nil
				}
			}
		}
		s.consume(len(chunk))
		if int64(len(s.buf)) > 4*s.limit { // JSON is longer than the protobuf form
			s.offset = offset
			return nil, 0, fmt.Errorf("request is longer than %d bytes of JSON", 4*s.limit)
		}
	}
}

func (s *jsonSplitter) consume(n int) {
	_, _ = s.r.Discard(n)
	s.offset += int64(n)
}
