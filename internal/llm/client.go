// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxResponse    = 1 << 20 // bytes of a provider's response
	maxIdle        = 8       // connections kept for the next request
	connectTimeout = 5 * time.Second
	idleTimeout    = time.Minute
)

// client sends requests to a provider. It follows no redirect, which would send the key
// elsewhere, and reads no body of an error, which may quote the request.
type client struct{ http http.Client }

func newClient(wrap func(http.RoundTripper) http.RoundTripper) *client {
	c := &client{http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout:    connectTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}}
	if wrap != nil {
		c.http.Transport = wrap(c.http.Transport)
	}
	return c
}

// Do sends a request and reads the whole body of a successful response.
func (c *client) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, failure(req.Context(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &StatusError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, failure(req.Context(), err)
	case len(body) > maxResponse:
		return nil, &UnusableError{What: "a response that is too large"}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// Force JSON: some providers send another Content-Type.
	resp.Header.Set("Content-Type", "application/json")
	return resp, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// failure returns err as the end of the context, or as a broken connection. An
// error of package url would show the whole URL.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &BrokenError{Err: err}
}

// clientError returns an error of a client without quotes of a response.
func clientError(ctx context.Context, err error) error {
	var (
		status   *StatusError
		broken   *BrokenError
		unusable *UnusableError
	)
	switch {
	case errors.As(err, &status):
		return status
	case errors.As(err, &broken):
		return broken
	case errors.As(err, &unusable):
		return unusable
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return &UnusableError{What: "a response that cannot be read"}
	}
}

// maxRetryAfter is the longest wait that a provider can request.
const maxRetryAfter = time.Hour

// retryAfter returns when a response asks to try again, 0 when it does not.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	var d time.Duration
	if seconds, err := strconv.ParseFloat(v, 64); err == nil && seconds >= 0 { // which NaN is not
		d = time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(v); err == nil {
		// Both times are the provider's, so that its clock and ours may differ.
		if sent, err := http.ParseTime(h.Get("Date")); err == nil {
			d = at.Sub(sent)
		}
	}
	return min(max(d, 0), maxRetryAfter)
}
