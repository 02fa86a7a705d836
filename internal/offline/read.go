// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bufio"
	"bytes"
	"context"
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

// countingReader reports how much was read through it.
type countingReader struct {
	r      io.Reader
	report func(n int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.report(int64(n))
	return n, err
}

// positionReader knows how much was read through it.
type positionReader struct {
	r io.Reader
	n int64
}

func (p *positionReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.n += int64(n)
	return n, err
}

// readInput calls add with every request of an input: the signal, its uncompressed
// protobuf bytes, which are valid during the call only, and where it begins. What
// cannot be read is an *InputError.
func readInput(ctx context.Context, input Input, counter *countingReader, limit int64, add func(wire.Signal, []byte, int64) error) error {
	fail := func(offset int64, err error) error {
		var w *wire.Error
		if errors.As(err, &w) && !errors.Is(err, errJSON) {
			offset += int64(w.Offset)
		}
		return &InputError{Name: input.Name, Offset: offset, Err: err}
	}
	f, err := input.Open()
	if err != nil {
		return fail(0, err)
	}
	defer func() { _ = f.Close() }()
	counter.r = f
	plain, err := unpack(bufio.NewReaderSize(counter, 1<<16))
	if err != nil {
		return fail(0, err)
	}
	defer plain.Close()
	position := &positionReader{r: plain}
	r := bufio.NewReaderSize(position, 1<<16)
	head, err := r.Peek(r.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(position.n, err)
	}
	if len(head) == 0 {
		return fail(0, errors.New("the input is empty"))
	}
	if looksLikeJSON(head) {
		return readJSON(ctx, r, limit, add, fail)
	}
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return fail(position.n, err)
	}
	if int64(len(body)) > limit {
		return fail(limit, fmt.Errorf("the request is longer than %d bytes", limit))
	}
	signal, err := detect(input.Name, body)
	if err != nil {
		return fail(0, err)
	}
	if err := add(signal, body, 0); err != nil {
		return fail(0, err)
	}
	return nil
}

// unpack undoes gzip or zstd, told by their magic numbers.
func unpack(r *bufio.Reader) (io.ReadCloser, error) {
	magic, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	default:
		return io.NopCloser(r), nil
	}
}

// looksLikeJSON tells JSON from protobuf. A protobuf request begins with the tag
// 0x0a, which is a line feed to JSON; what follows it decides.
func looksLikeJSON(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	text := bytes.TrimLeft(head, " \t\r\n")
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	rest := bytes.TrimLeft(text[1:], " \t\r\n")
	if len(rest) == 0 {
		return true
	}
	return rest[0] == '"' || rest[0] == '}'
}

// signals in the order in which they are tried.
var signals = []wire.Signal{wire.Traces, wire.Metrics, wire.Logs}

// detect finds the signal of a binary request: the one as which it is valid. Where
// several fit (a request without records), the file's name may tell.
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
		var w *wire.Error
		if errors.As(err, &w) && w.Offset > farthest { // the likeliest signal is the one that got farthest
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
	return fits[0], nil
}

// errJSON marks errors whose offset counts in the JSON text already.
var errJSON = errors.New("not OTLP/JSON")

// readJSON reads one request after another: one a line, or any other white space
// between them.
func readJSON(ctx context.Context, r *bufio.Reader, limit int64, add func(wire.Signal, []byte, int64) error, fail func(int64, error) error) error {
	s := jsonSplitter{r: r, limit: limit}
	if bom, _ := r.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = r.Discard(3)
		s.offset = 3
	}
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
			return fail(s.offset, err)
		}
		signal, err := otlpjson.Detect(text)
		if err == nil {
			body, err = otlpjson.Transcode(ctx, signal, body[:0], text, 0)
		}
		if err != nil {
			var w *wire.Error
			if errors.As(err, &w) {
				offset += int64(w.Offset)
			}
			return fail(offset, fmt.Errorf("%w: %w", errJSON, err))
		}
		if err := add(signal, body, offset); err != nil {
			return fail(offset, fmt.Errorf("%w: %w", errJSON, err))
		}
	}
}

// jsonSplitter cuts a stream into its top-level JSON objects by counting braces
// outside strings; whether an object is good JSON is not its business.
type jsonSplitter struct {
	r      *bufio.Reader
	limit  int64
	offset int64 // of what was read
	buf    []byte
}

// next returns the next object, valid until the next call, and where it begins;
// io.EOF when there is none left.
func (s *jsonSplitter) next() (text []byte, offset int64, err error) {
	s.buf = s.buf[:0]
	depth, quoted, escaped := 0, false, false
	for {
		chunk, err := s.r.Peek(1)
		if err == nil {
			chunk, _ = s.r.Peek(s.r.Buffered())
		}
		if err != nil {
			if errors.Is(err, io.EOF) && len(s.buf) > 0 {
				return nil, 0, fmt.Errorf("the input ends within a request: %w", io.ErrUnexpectedEOF)
			}
			return nil, 0, err
		}
		for i, c := range chunk {
			if depth == 0 {
				switch c {
				case ' ', '\t', '\r', '\n':
					continue
				case '{':
					offset = s.offset + int64(i)
					depth = 1
					s.buf = append(s.buf, c)
					continue
				default:
					s.offset += int64(i)
					return nil, 0, fmt.Errorf("%q where a request should begin", rune(c))
				}
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
				depth++
			case c == '}' || c == ']':
				depth--
				if depth == 0 {
					s.consume(i + 1)
					return s.buf, offset, nil
				}
			}
		}
		s.consume(len(chunk))
		if int64(len(s.buf)) > 4*s.limit { // JSON is longer than the protobuf it stands for
			return nil, 0, fmt.Errorf("the request is longer than %d bytes of JSON", 4*s.limit)
		}
	}
}

func (s *jsonSplitter) consume(n int) {
	_, _ = s.r.Discard(n)
	s.offset += int64(n)
}
