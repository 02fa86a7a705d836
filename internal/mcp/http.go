// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"assay/internal/fair"
	"assay/internal/inprocess"
)

const (
	// messageTimeout limits a message, including its wait for its turn. The server must allow more time for writing a
	// response.
	messageTimeout = timeout + 10*time.Second

	// maxRequest is the maximum size of a message in bytes. Arguments of tools are short, but a client may introduce
	// itself with an icon. Every connection may hold a message that does not end.
	maxRequest = 32 << 10

	// Messages that are answered at a time, of all organizations and of one. An answer takes several times maxAnswer
	// while it is made.
	maxMessages     = 32
	maxMessagesEach = 16
)

// HTTPConfig configures HTTPHandler. Authenticate and CPU are required.
type HTTPConfig struct {
	// Authenticate returns the organization of a request. If the request has no valid credential, or too many were sent
	// with it, Authenticate returns "" and has sent the response.
	Authenticate func(http.ResponseWriter, *http.Request) (organization string)

	CPU    *fair.Semaphore // for work on messages, by organization
	Logger *slog.Logger    // default: none
}

// httpHandler is the handler that HTTPHandler returns.
type httpHandler struct {
	cfg      HTTPConfig
	sdk      http.Handler
	messages *fair.Semaphore // that are answered, by organization
}

// HTTPHandler serves a server over HTTP without sessions. The tools send the credential of a request to the API.
func HTTPHandler(s *mcp.Server, cfg HTTPConfig) http.Handler {
	return http.NewCrossOriginProtection().Handler(&httpHandler{
		cfg: cfg, messages: fair.NewSemaphore(maxMessages, maxMessagesEach),
		sdk: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, Logger: cfg.Logger,
			// Every request needs a credential that a browser does not add by itself, so that a page of another name
			// which resolves to this host gets nothing. A proxy on this host sends other names.
			DisableLocalhostProtection: true,
		}),
	})
}

// ServeHTTP implements http.Handler. It reads a message before it acquires a slot, so that slow clients do not delay
// other clients.
func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), messageTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	organization := h.cfg.Authenticate(w, r)
	if organization == "" {
		return
	}
	if r.Method != http.MethodPost { // clients ask for a stream with GET
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "the server has no streams and no sessions", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(w, fmt.Sprintf("the message has more than %d bytes", maxRequest), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the message did not arrive", http.StatusBadRequest)
		return
	}
	// Batches belong to an earlier version of the protocol. The SDK runs all their messages at once.
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		http.Error(w, "batches of messages are not supported", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// The response is buffered to send it with a Content-Length, which package connlimit needs to count it.
	answer := &inprocess.Response{Fields: w.Header()}
	if err := h.answer(answer, r, organization); err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the message was not answered in time", http.StatusServiceUnavailable)
		return
	}
	if answer.Body.Len() > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	}
	w.WriteHeader(cmp.Or(answer.Status, http.StatusOK))
	_, _ = w.Write(answer.Body.Bytes()) // the client may have disconnected
}

// answer waits for a slot of the organization and answers a message. It returns after the tool has returned.
func (h *httpHandler) answer(w http.ResponseWriter, r *http.Request, organization string) error {
	ctx := r.Context()
	if err := h.messages.Acquire(ctx, organization); err != nil {
		return err
	}
	defer h.messages.Release(organization)
	if err := h.cfg.CPU.Acquire(ctx, organization); err != nil {
		return err
	}
	m := &message{ctx: ctx, address: r.RemoteAddr, cpu: h.cfg.CPU, organization: organization}
	m.leave = func() { m.cpu.Release(organization) }
	defer func() { m.leave() }()
	h.sdk.ServeHTTP(w, r.WithContext(context.WithValue(ctx, messageKey{}, m)))
	return context.Cause(ctx)
}

// message is a message over HTTP in progress. It holds a CPU slot, except while a tool waits for the API, whose handler
// acquires its own slot.
type message struct {
	ctx          context.Context // of the request; the context of a tool ends later
	address      string          // of the client
	cpu          *fair.Semaphore
	organization string
	leave        func() // releases the slot
}

type messageKey struct{}

// outside releases the slot, sends a request of the client of the message, and acquires a slot again. The context of the
// request ends with the message.
func (m *message) outside(r *http.Request, to http.RoundTripper) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	r = r.WithContext(ctx)
	r.RemoteAddr = m.address
	m.leave()
	m.leave = func() {}
	resp, err := to.RoundTrip(r)
	leave, failed := m.cpu.Enter(m.ctx, m.organization)
	if failed != nil {
		return nil, failed
	}
	m.leave = leave
	return resp, err
}
