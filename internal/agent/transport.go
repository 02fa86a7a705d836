// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

const (
	maxHeader   = 64 << 10 // bytes of the header of a response, including 1xx responses
	maxIdle     = 256      // idle connections
	idleTimeout = time.Minute

	// Many calls share an HTTP/2 connection. Pings detect a dead connection before all of them time out.
	silence     = 10 * time.Second
	pingTimeout = 5 * time.Second
)

// newTransport returns the transport to the backend. It follows no redirects, stores no cookies, and decompresses
// gzip.
func newTransport(cfg *Config) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                  proxyOnce,
		DialContext:            (&net.Dialer{Timeout: cfg.ConnectTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    cfg.ConnectTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout},
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("certificates of the authority: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificates of the authority: there is none in %s", cfg.CAFile)
		}
	}
	if cfg.CertFile == "" && cfg.KeyFile == "" {
		return t, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		return &c, nil
	}
	if _, err := load(nil); err != nil { // fail at startup, not at the first call
		return nil, err
	}
	t.TLSClientConfig.GetClientCertificate = load
	return t, nil
}

// attempt traces one attempt of a call.
type attempt struct {
	connected atomic.Bool // a connection was established or reused
	answered  atomic.Bool // the first byte of the response arrived
}

// traced returns a context that records the progress of a request in a.
func (a *attempt) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { a.connected.Store(true) },
		GotFirstResponseByte: func() { a.answered.Store(true) },
	})
}

type attemptKey struct{}

// withoutRetry returns a context that prevents net/http from retrying a request. By default, it retries a GET on one
// idle connection after another.
func (a *attempt) withoutRetry(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

var errBroke = errors.New("the connection broke before a response")

// proxyOnce returns the proxy of the environment. net/http calls it before each attempt, so an error prevents a retry.
func proxyOnce(r *http.Request) (*url.URL, error) {
	if a, ok := r.Context().Value(attemptKey{}).(*attempt); ok && a.connected.Load() {
		return nil, errBroke
	}
	return http.ProxyFromEnvironment(r)
}
