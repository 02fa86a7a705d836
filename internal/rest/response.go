// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"assay"
	"assay/internal/httpreply"
	"assay/internal/safetext"
)

// retryAfter is the Retry-After of responses while a dependency is unavailable.
const retryAfter = 5 * time.Second

// exchange is one request and the response to it.
type exchange struct {
	http.ResponseWriter
	s       *server
	r       *http.Request
	traceID string
	wrote   bool // the response has begun
	success int  // status of a success; 0: 200
}

func (x *exchange) WriteHeader(status int) {
	x.wrote = true
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	x.wrote = true
	return x.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

func (x *exchange) meta() Meta {
	return Meta{Timestamp: timestamp(x.s.now()), TraceID: x.traceID}
}

// buffers are reused to encode responses.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// succeed responds 200, or 201, with data, or 304 if the response is tagged and the client has it.
// pg is nil for a single resource. If succeed returns an error, it has written nothing.
func (x *exchange) succeed(ctx context.Context, data any, pg *page, tagged bool) error {
	leave, err := x.s.cfg.CPU.Enter(ctx, assay.OrganizationOf(ctx))
	if err != nil {
		return err
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	b := buffers.Get().(*bytes.Buffer)
	release := func() {
		const largest = 1 << 20 // maximum bytes of a buffer that is reused
		if b != nil && b.Cap() <= largest {
			b.Reset()
			buffers.Put(b)
		}
		b = nil
	}
	defer release()
	b.WriteString(`{"data":`)
	if err := encode(b, data); err != nil {
		return err
	}
	dataEnd, meta := b.Len(), x.meta()
	if pg != nil {
		meta.Total, meta.HasMore = &pg.total, &pg.hasMore
	}
	b.WriteString(`,"meta":`)
	_ = encode(b, meta) // strings and numbers, as the links: cannot fail
	metaEnd := b.Len()
	if pg != nil {
		b.WriteString(`,"links":`)
		_ = encode(b, pg.links)
	}
	h := x.Header()
	h.Add("Vary", "Authorization")
	h.Set("Cache-Control", "private, no-cache")
	if tagged {
		tag := entityTag(b.Bytes()[:dataEnd], b.Bytes()[metaEnd:], pg)
		h.Set("ETag", tag)
		if httpreply.Matches(x.r, tag) {
			leave()
			x.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	b.WriteByte('}')
	body, compressed := httpreply.Compress(x, x.r, b.Bytes())
	if compressed {
		release() // before the client reads the response
	}
	leave()
	x.write(cmp.Or(x.success, http.StatusOK), "application/json", body)
	return nil
}

// entityTag covers all data except meta, so it is the same on every replica. It is weak,
// because meta and the encoding differ between responses that share it.
func entityTag(data, links []byte, pg *page) string {
	h := sha256.New()
	h.Write(data)
	h.Write(links)
	if pg != nil {
		h.Write(strconv.AppendInt(nil, pg.total, 10))
	}
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// encode appends v as JSON on one line.
func encode(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case Insight:
		return v.encode(b)
	case []Insight:
		b.WriteByte('[')
		for i := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := v[i].encode(b); err != nil {
				return err
			}
		}
		return b.WriteByte(']')
	default:
		return safetext.EncodeJSON(b, v, "")
	}
}

// statuses maps error codes to response statuses.
var statuses = map[assay.Code]int{
	assay.CodeInvalid:            http.StatusBadRequest,
	assay.CodeMissingCredentials: http.StatusUnauthorized,
	assay.CodeInvalidAPIKey:      http.StatusUnauthorized,
	assay.CodeInvalidToken:       http.StatusUnauthorized,
	assay.CodeForbidden:          http.StatusForbidden,
	assay.CodeNotFound:           http.StatusNotFound,
	assay.CodeServiceNotFound:    http.StatusNotFound,
	assay.CodeInsightNotFound:    http.StatusNotFound,
	assay.CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
	assay.CodeConflict:           http.StatusConflict,
	assay.CodeTooLarge:           http.StatusRequestEntityTooLarge,
	assay.CodeUnprocessable:      http.StatusUnprocessableEntity,
	assay.CodeRateLimited:        http.StatusTooManyRequests,
	assay.CodeInternal:           http.StatusInternalServerError,
	assay.CodeUpstream:           http.StatusBadGateway,
	assay.CodeUnavailable:        http.StatusServiceUnavailable,
}

// fail responds with an error. It logs the text of an internal error and the cause of a
// failed dependency; it never sends them to the client.
func (x *exchange) fail(err error) {
	code := assay.ErrorCode(err)
	if code == assay.CodeInternal && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		code = assay.CodeUnavailable // the deadline has passed
	}
	status, ok := statuses[code]
	if !ok {
		code, status = assay.CodeInternal, http.StatusInternalServerError
	}
	f := Failure{Error: FailureError{Code: code}, Meta: x.meta()}
	var e *assay.Error
	if errors.As(err, &e) && code != assay.CodeInternal {
		f.Error.Message, f.Error.Details = e.Message, e.Details
	}
	var named interface{ BackendCode() string }
	if errors.As(err, &named) && named.BackendCode() != "" {
		f.Error.Code = assay.Code(named.BackendCode())
	}
	if status >= http.StatusInternalServerError {
		x.log(status, err)
		if e == nil || e.Err != nil || f.Error.Message == "" {
			f.Error.Message = generalMessage(status)
		}
	}
	h := x.Header()
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	after := time.Duration(-1) // none
	var retry interface{ RetryAfter() time.Duration }
	if errors.As(err, &retry) {
		after = retry.RetryAfter()
	}
	if after < 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		after = retryAfter
	}
	if after >= 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(after.Seconds())))))
	}
	var body bytes.Buffer
	_ = encode(&body, f) // strings and a time: cannot fail
	x.send(status, "application/json", body.Bytes())
}

func generalMessage(status int) string {
	switch status {
	case http.StatusBadGateway:
		return "a system that this service depends on failed"
	case http.StatusServiceUnavailable:
		return "a system that this service depends on is not available"
	default:
		return "an internal error occurred"
	}
}

func (x *exchange) log(status int, err error) {
	level := slog.LevelWarn
	if status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	if x.r.Context().Err() != nil {
		level = slog.LevelDebug // the client disconnected; the server is fine
	}
	attrs := []any{"method", x.r.Method, "path", x.r.URL.Path, "status", status, "trace_id", x.traceID, "error", err}
	if e, ok := errors.AsType[*assay.Error](err); ok && e.Err != nil { // the text of an Error may omit its cause
		attrs = append(attrs, "cause", e.Err)
	}
	x.s.cfg.Logger.Log(x.r.Context(), level, "request failed", attrs...)
}

// recover responds 500 to a request with a panicking handler.
func (x *exchange) recover() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { // requested: close the connection
		panic(v)
	}
	x.s.cfg.Logger.ErrorContext(x.r.Context(), "handler panicked",
		"method", x.r.Method, "path", x.r.URL.Path, "trace_id", x.traceID, "panic", v, "stack", string(debug.Stack()))
	if x.wrote { // close the connection, so that the client does not mistake a partial response for a complete one
		panic(http.ErrAbortHandler)
	}
	x.fail(&assay.Error{Code: assay.CodeInternal, Message: "handler panicked"})
}

// send writes the response with a body, compressed if the client accepts it.
func (x *exchange) send(status int, contentType string, body []byte) {
	body, _ = httpreply.Compress(x, x.r, body)
	x.write(status, contentType, body)
}

// write writes the response with a body that is compressed or not.
func (x *exchange) write(status int, contentType string, body []byte) {
	x.Header().Set("X-Content-Type-Options", "nosniff")
	httpreply.Write(x, x.r, status, contentType, body)
}
