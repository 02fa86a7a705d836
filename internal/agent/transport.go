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
	maxHeader   = 64 << 10 // bytes of the header of a response, those of 1xx responses before it included
	maxIdle     = 256      // connections kept for the next calls
	idleTimeout = time.Minute

	// An HTTP/2 connection carries many calls: one that has gone silent is found out
	// before they all time out on it.
	silence     = 10 * time.Second
	pingTimeout = 5 * time.Second
)

// newTransport returns the transport to the backend. It follows no redirect, knows
// no cookie, and unpacks gzip.
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
	if _, err := load(nil); err != nil { // said now, not when the first call comes
		return nil, err
	}
	t.TLSClientConfig.GetClientCertificate = load
	return t, nil
}

// attempt is one try of a call.
type attempt struct {
	connected atomic.Bool // there was a connection, new or kept
	answered  atomic.Bool // a byte of the response came
}

// traced returns a context that lets a see how far a request gets.
func (a *attempt) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { a.connected.Store(true) },
		GotFirstResponseByte: func() { a.answered.Store(true) },
	})
}

type attemptKey struct{}

// alone returns a context for a request that net/http must not send twice: left to
// itself, it tries a GET again on one kept connection after the other.
func (a *attempt) alone(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

var errBroke = errors.New("the connection broke before a response")

// proxyOnce chooses the proxy that the environment names. net/http asks before each
// try, which is where a second one can be refused.
func proxyOnce(r *http.Request) (*url.URL, error) {
	if a, ok := r.Context().Value(attemptKey{}).(*attempt); ok && a.connected.Load() {
		return nil, errBroke
	}
	return http.ProxyFromEnvironment(r)
}
