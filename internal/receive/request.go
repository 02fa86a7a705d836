// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"assay"
	"assay/internal/connlimit"
	"assay/internal/fair"
	"assay/internal/requestid"
	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
)

// encoding is the compression of a body.
type encoding uint8

const (
	plain encoding = iota
	gzipped
	zstandard
)

// parseEncoding parses a lower-case value of Content-Encoding or grpc-encoding.
func parseEncoding(s string) (encoding, error) {
	switch s {
	case "", "identity":
		return plain, nil
	case "gzip":
		return gzipped, nil
	case "zstd":
		return zstandard, nil
	default:
		return plain, errEncoding
	}
}

// request is one export request of either transport while it is processed.
type request struct {
	*Receiver
	signal       wire.Signal
	began        time.Time
	reservation  *reservation
	arrivalTime  time.Duration // time spent waiting for the body
	organization string
	conn         *connlimit.Conn
	charged      bool // to the rate limit
	event        Event
}

// withRequestID returns ctx with the request id from the X-Request-Id header, or a new one.
func withRequestID(ctx context.Context, header []string) context.Context {
	id := requestid.Of(header)
	if id == "" {
		id = requestid.New()
	}
	return requestid.NewContext(ctx, id)
}

func (r *Receiver) request(t Transport, signal wire.Signal) *request {
	return &request{
		Receiver: r,
		signal:   signal,
		began:    time.Now(),
		event:    Event{Transport: t, Signal: signal},
	}
}

// serve handles the request: it checks the credential, calls f and observes the end. The context of f is canceled if
// the request is evicted. The returned error is the response to the sender. The connection is in use until answered
// is called.
func (q *request) serve(
	ctx context.Context, authorization []string, remoteAddr string, f func(context.Context) (warning string, err error),
) (warning string, err error) {
	defer func() { q.observe(ctx, err) }()
	q.conn = q.connections[q.event.Transport].Begin(remoteAddr)
	if err := q.begin(q.conn.Requests() <= 1); err != nil {
		return "", err
	}
	defer q.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if q.reservation, err = q.budget.begin(maxWait, cancel); err != nil {
		return "", err
	}
	defer q.reservation.end()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	defer q.charge()
	if err = q.authenticate(ctx, authorization, remoteAddr); err == nil {
		warning, err = f(ctx)
	}
	if err != nil {
		if cause, ok := errors.AsType[*refusal](context.Cause(ctx)); ok {
			err = cause
		}
	}
	return warning, err
}

// answered reports that the response was written.
func (q *request) answered() { q.conn.End() }

func (q *request) observe(ctx context.Context, err error) {
	q.event.Outcome, _ = classify(err)
	q.event.Duration = time.Since(q.began)
	q.event.RequestID, q.event.OrganizationID = requestid.FromContext(ctx), q.organization
	if q.event.Outcome == Failed {
		q.log.LogAttrs(ctx, slog.LevelError, "receiving telemetry failed",
			slog.String("transport", string(q.event.Transport)),
			slog.String("signal", q.signal.String()),
			slog.String("organization_id", q.organization),
			slog.Any("error", err))
	}
	if q.cfg.Observe != nil {
		q.cfg.Observe(q.event)
	}
}

// deadline returns when the request has to be answered. Time spent waiting for the sender does not count. A tenth of
// the timeout is reserved for writing the response.
func (q *request) deadline() time.Time {
	return q.began.Add(q.arrivalTime + q.cfg.AnswerTimeout*9/10)
}

func (q *request) authenticate(ctx context.Context, authorization []string, remoteAddr string) error {
	ctx, cancel := context.WithDeadline(ctx, q.deadline())
	defer cancel()
	// Join repeated fields to a value that matches no credential, instead of choosing one of them.
	principal, err := q.cfg.Authenticate(ctx, strings.Join(authorization, ", "), remoteAddr)
	if err != nil {
		return err
	}
	if principal.User || !principal.Allows(assay.ScopeIngest) {
		return errScope
	}
	q.conn.Identify(principal.OrganizationID)
	// Requests that wait for their turn give way as those of their organization. Over HTTP, responses wait instead, which
	// hold no place among the requests.
	q.organization = principal.OrganizationID
	q.reservation.identify(q.organization)
	if q.event.Transport == GRPC {
		if err := q.conn.Turn(ctx, q.organization); err != nil {
			return err
		}
	}
	if r := q.rates; r != nil {
		if err := r.admit(principal.OrganizationID, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// read reads the body: size bytes, or until EOF if size is -1.
func (q *request) read(ctx context.Context, body io.Reader, size int64, enc encoding) (*buffer, error) {
	limit, tooLarge := q.cfg.MaxUncompressed, errUncompressedSize
	if enc != plain {
		limit, tooLarge = q.cfg.MaxCompressed, errCompressedSize
	}
	if size > limit {
		return nil, tooLarge
	}
	began := time.Now()
	defer func() { q.arrivalTime = max(0, time.Since(began)-q.reservation.waited) }()
	b, err := q.reservation.buffer(ctx, minBuffer)
	if err != nil {
		return nil, err
	}
	for int64(len(b.b)) != size {
		if len(b.b) == cap(b.b) {
			b, err = q.reservation.grow(ctx, b, nextSize(int64(cap(b.b)), size, limit+1))
			if err != nil {
				return nil, err
			}
		}
		n, err := body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		q.event.Received += int64(n)
		switch {
		case int64(len(b.b)) > limit:
			q.reservation.free(b)
			return nil, tooLarge
		case err == io.EOF && (size < 0 || int64(len(b.b)) == size):
			return b, nil
		case err != nil:
			q.reservation.free(b)
			return nil, err
		}
	}
	return b, nil
}

// ingest passes the body returned by read to the Ingester, and frees it.
func (q *request) ingest(ctx context.Context, body *buffer, enc encoding, json bool) (warning string, err error) {
	ctx, cancel := context.WithDeadline(ctx, q.deadline())
	defer cancel()
	if enc != plain || json {
		if body, err = q.translate(ctx, body, enc, json); err != nil {
			return "", err
		}
	}
	defer func() { q.reservation.free(body) }()
	if !q.open() {
		return "", errDraining
	}
	q.event.Uncompressed = int64(len(body.b))
	q.charge()
	return q.cfg.Ingester.Ingest(ctx, q.organization, q.signal, body.b)
}

// charge charges the request to the rate limit, once: its uncompressed size, or as much of it as was received,
// decompressed or converted when it failed.
func (q *request) charge() {
	if q.rates == nil || q.organization == "" || q.charged {
		return
	}
	q.charged = true
	size := q.event.Uncompressed
	if size == 0 {
		size = max(q.event.Received, q.reservation.most)
	}
	q.rates.spend(q.organization, size)
}

// translate returns the protobuf message of a compressed or JSON body, and frees the body. It needs the CPU, which
// the organizations share through a semaphore.
func (q *request) translate(ctx context.Context, body *buffer, enc encoding, json bool) (_ *buffer, err error) {
	q.reservation.cpu = &cpuSlot{semaphore: q.cfg.CPU, organization: q.organization}
	if err := q.reservation.cpu.acquire(ctx); err != nil {
		q.reservation.free(body)
		return nil, err
	}
	defer func() {
		q.reservation.cpu.release()
		q.reservation.cpu = nil
	}()
	if enc != plain {
		if body, err = q.decompress.decompress(ctx, q.reservation, body, enc); err != nil {
			return nil, err
		}
	}
	if json {
		return q.transcode(ctx, body)
	}
	return body, nil
}

// cpuSlot is an organization's slot of the CPU semaphore. It is not safe for concurrent use.
type cpuSlot struct {
	semaphore    *fair.Semaphore
	organization string
	held         bool
}

func (t *cpuSlot) acquire(ctx context.Context) error {
	if err := t.semaphore.Acquire(ctx, t.organization); err != nil {
		return err
	}
	t.held = true
	return nil
}

// release releases the slot if it is held.
func (t *cpuSlot) release() {
	if t.held {
		t.held = false
		t.semaphore.Release(t.organization)
	}
}

// jsonExpansion is the maximum number of protobuf bytes per byte of JSON: an element of a packed fixed64 field has 8
// bytes, and "0," in JSON.
const jsonExpansion = 4

// transcode returns a JSON body as protobuf, and frees it.
func (q *request) transcode(ctx context.Context, doc *buffer) (*buffer, error) {
	l := q.reservation
	defer l.free(doc)
	n := int64(len(doc.b))
	out, err := l.buffer(ctx, n)
	if err != nil {
		return nil, err
	}
	size, paid := int64(cap(out.b)), l.bytes
	if spare := jsonExpansion*n - size; spare > 0 {
		if err := l.take(ctx, spare); err != nil {
			l.free(out)
			return nil, err
		}
	}
	out.b, err = otlpjson.Transcode(ctx, q.signal, out.b, doc.b, int(q.cfg.MaxUncompressed))
	l.give(l.bytes - paid - (int64(cap(out.b)) - size))
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, otlpjson.ErrTooLarge):
		err = errUncompressedSize
	}
	l.free(out)
	return nil, err
}
