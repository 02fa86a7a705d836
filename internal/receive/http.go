// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"assay/internal/requestid"
	"assay/internal/safetext"
	"assay/internal/wire"
)

const (
	protobufType = "application/x-protobuf"
	jsonType     = "application/json"
)

// Limits on reading the rest of a refused request's body.
const (
	discardTimeout = 5 * time.Second // in total
	discardIdle    = time.Second     // without receiving a byte
)

func (r *Receiver) newHTTPServer() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // only: an HTTP/2 client can cause much work with frames that belong to no request
	return &http.Server{
		Handler:   r.connections[HTTP].Paced(r.HTTPHandler()),
		ConnState: r.connections[HTTP].ConnState,
		// The general handler of OPTIONS * would respond without the handler, which limits requests.
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            r.cfg.ArrivalTimeout,
		ReadTimeout:                  r.cfg.ArrivalTimeout,
		WriteTimeout:                 r.cfg.ArrivalTimeout + 2*r.cfg.AnswerTimeout, // from the header to the end of the response
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes - headerSlop,
		Protocols:                    &protocols,
		ErrorLog:                     slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
}

// HTTPHandler returns the handler of the OTLP/HTTP endpoints. Serve adds timeouts that the handler alone does not
// have.
func (r *Receiver) HTTPHandler() http.Handler {
	handler := http.Handler(http.HandlerFunc(r.serveHTTP))
	if r.cfg.WrapHTTP != nil {
		handler = r.cfg.WrapHTTP(handler)
	}
	return handler
}

func (r *Receiver) serveHTTP(w http.ResponseWriter, hr *http.Request) {
	ctx := withRequestID(hr.Context(), hr.Header.Values(requestid.Header))
	w.Header().Set(requestid.Header, requestid.FromContext(ctx))
	var signal wire.Signal
	switch hr.URL.Path {
	case "/v1/traces":
		signal = wire.Traces
	case "/v1/metrics":
		signal = wire.Metrics
	case "/v1/logs":
		signal = wire.Logs
	default:
		writeStatus(w, hr, http.StatusNotFound, &refusal{Unsupported, "path not found"})
		return
	}
	if hr.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeStatus(w, hr, http.StatusMethodNotAllowed, &refusal{Unsupported, "method must be POST"})
		return
	}
	q := r.request(HTTP, signal)
	defer q.answered()
	var json, arrived bool
	warning, err := q.serve(ctx, hr.Header.Values("Authorization"), hr.RemoteAddr, func(ctx context.Context) (string, error) {
		var err error
		if json, err = isJSON(hr.Header); err != nil {
			return "", err
		}
		enc, err := httpEncoding(hr.Header)
		if err != nil {
			return "", err
		}
		body, err := q.readHTTP(ctx, w, hr, enc)
		if err != nil {
			return "", err
		}
		arrived = true
		return q.ingest(ctx, body, enc, json)
	})
	if err != nil {
		if !arrived {
			r.discard(w, hr)
		}
		outcome, _ := classify(err)
		writeStatus(w, hr, outcome.answer().http, err)
		return
	}
	closeCanceled(w, hr)
	body := success(warning)
	w.Header().Set("Content-Type", protobufType)
	if json {
		body = successJSON(warning)
		w.Header().Set("Content-Type", jsonType)
	}
	_, _ = w.Write(body) // a sender that has disconnected retries the request
}

// closeCanceled closes the connection after the response if the context of the request has ended. net/http cancels that
// context when a read fails, even at a deadline, such as that of an evicted request. It would keep the connection open
// but cancel each further request on it.
func closeCanceled(w http.ResponseWriter, hr *http.Request) {
	if hr.Context().Err() != nil {
		w.Header().Set("Connection", "close")
	}
}

// discard reads the rest of the body of a request that was refused early. A sender reads the response only
// after it has sent everything; if the server closed the connection before, the sender would not see the response.
// discard gives up on a body that is very long, stalls, or waits for the response.
func (r *Receiver) discard(w http.ResponseWriter, hr *http.Request) {
	control := http.NewResponseController(w)
	end := time.Now().Add(discardTimeout)
	idle := func() bool {
		now := time.Now()
		_ = control.SetReadDeadline(now.Add(min(discardIdle, end.Sub(now))))
		return now.After(end)
	}
	if idle(); hr.Header.Get("Expect") != "" {
		return
	}
	piece := make([]byte, 32<<10)
	for left := 2 * r.cfg.MaxUncompressed; left > 0 && !idle(); {
		n, err := hr.Body.Read(piece)
		if err == io.EOF {
			_ = control.SetReadDeadline(time.Time{}) // as in readHTTP
		}
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

// readHTTP reads the body. It stops when ctx is canceled with a refusal.
func (q *request) readHTTP(ctx context.Context, w http.ResponseWriter, hr *http.Request, enc encoding) (*buffer, error) {
	control := http.NewResponseController(w)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(q.arrival, func() { cancel(errDraining) })()
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		if _, ok := errors.AsType[*refusal](context.Cause(ctx)); ok { // otherwise the sender disconnected
			_ = control.SetReadDeadline(time.Unix(1, 0))
		}
	})
	body, err := q.read(ctx, hr.Body, hr.ContentLength, enc)
	if !stop() {
		<-interrupted // the ResponseWriter must not be used once the handler has returned
	}
	if err == nil {
		// ReadTimeout covers the body only. After it, the server would treat the sender as disconnected and cancel
		// the request's context.
		_ = control.SetReadDeadline(time.Time{})
		return body, nil
	}
	if cause, ok := errors.AsType[*refusal](context.Cause(ctx)); ok {
		return nil, cause
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return nil, err
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errTruncated
	case hr.Context().Err() != nil:
		return nil, errCanceled
	default: // broken chunks
		return nil, &refusal{Invalid, "cannot read the body: " + err.Error()}
	}
}

// isJSON reports whether the Content-Type is JSON rather than protobuf.
func isJSON(h http.Header) (bool, error) {
	media := h.Get("Content-Type")
	if media == protobufType {
		return false, nil
	}
	media, _, _ = strings.Cut(media, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case protobufType:
		return false, nil
	case jsonType:
		return true, nil
	default:
		return false, errMediaType
	}
}

func httpEncoding(h http.Header) (encoding, error) {
	switch values := h["Content-Encoding"]; len(values) {
	case 0:
		return plain, nil
	case 1:
		return parseEncoding(strings.ToLower(strings.TrimSpace(values[0])))
	default:
		return plain, errEncoding
	}
}

// writeStatus writes err as a google.rpc.Status in the encoding of the request, or as JSON if the request has neither
// encoding.
func writeStatus(w http.ResponseWriter, hr *http.Request, status int, err error) {
	closeCanceled(w, hr)
	outcome, message := classify(err)
	a := outcome.answer()
	s := &spb.Status{Code: int32(a.grpc), Message: strings.ToValidUTF8(message, "\uFFFD")}
	header := w.Header()
	var body []byte
	if json, err := isJSON(hr.Header); err == nil && !json {
		header.Set("Content-Type", protobufType)
		body, _ = proto.Marshal(s) // cannot fail: the message is valid UTF-8
	} else {
		header.Set("Content-Type", jsonType)
		body, _ = protojson.Marshal(s)
		body = safetext.JSON(body)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	switch {
	case a.retry:
		header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(retryDelay(err).Seconds())))))
	case outcome == Unauthenticated:
		header.Set("WWW-Authenticate", "Bearer")
	case errors.Is(err, errEncoding):
		header.Set("Accept-Encoding", "gzip, zstd")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
