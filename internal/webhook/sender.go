// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"assay/internal/netguard"
)

const (
	// AttemptTimeout is the deadline of an attempt, from the resolution of the name to the response.
	AttemptTimeout = 10 * time.Second

	maxResponse = 4 << 10 // bytes of a response body that are read
	maxHeader   = 16 << 10
)

// sender sends requests to targets.
type sender struct {
	client    *http.Client
	userAgent string
}

// newSender returns a sender to public addresses, or to any with private. Proxies of the environment are not used:
// they would connect on behalf of the server.
func newSender(private bool, userAgent string) *sender {
	dialer := &net.Dialer{}
	if !private {
		dialer.Control = netguard.Control
	}
	return &sender{userAgent: userAgent, client: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// outcome is the result of one request.
type outcome struct {
	status     int // 0: no response
	retryAfter time.Duration
	problem    string // "" for a success; it describes no address and has no text of the target
}

// send sends a body to a URL, signed with a key.
func (s *sender) send(ctx context.Context, url, id string, now time.Time, key, body []byte) outcome {
	ctx, cancel := context.WithTimeout(ctx, AttemptTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return outcome{problem: "the URL is not valid"}
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {s.userAgent},
		"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {sign(key, id, stamp, body)},
	}
	response, err := s.client.Do(r)
	if err != nil {
		return outcome{problem: describe(ctx, err)}
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxResponse) // so that the target can finish its response
	o := outcome{status: response.StatusCode}
	switch {
	case o.status >= 200 && o.status < 300:
		return o
	case o.status >= 300 && o.status < 400:
		o.problem = fmt.Sprintf("the target answered with status %d; redirects are not followed", o.status)
	default:
		o.problem = fmt.Sprintf("the target answered with status %d", o.status)
	}
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		o.retryAfter = time.Duration(seconds) * time.Second
	}
	return o
}

// sign returns the signature of Standard Webhooks, version 1.
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// describe returns the reason of a failed request in words of its own: errors of package net name addresses.
func describe(ctx context.Context, err error) string {
	var deadline interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil || errors.As(err, &deadline) && deadline.Timeout():
		return fmt.Sprintf("the target did not answer within %v", AttemptTimeout)
	case errors.As(err, new(*net.DNSError)), errors.Is(err, netguard.ErrPrivate): // the same text, so that it does not disclose which internal names exist
		return "the name of the host cannot be resolved, or its address is not public and the server does not allow that (--webhook-allow-private-hosts)"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "the certificate of the target is not valid"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)): // no HTTP server
		return "the target does not speak TLS"
	default:
		return "the connection to the target failed"
	}
}
