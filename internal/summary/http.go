// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	connectTimeout = 5 * time.Second
	idleTimeout    = time.Minute
)

// statusError is a response that is not a success.
type statusError struct {
	status int
	after  time.Duration // when to try again, 0 when it does not say
}

func (e *statusError) Error() string { return fmt.Sprintf("it answered with status %d", e.status) }

// brokenError is an exchange without a whole response.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "the connection failed: " + e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// unusableError is a response that holds no summary.
type unusableError struct{ what string }

func (e *unusableError) Error() string { return "it gave " + e.what }

// passing tells whether the same request may succeed a little later.
func passing(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.status == http.StatusTooManyRequests || status.status >= 500
	}
	var broken *brokenError
	return errors.As(err, &broken)
}

// client sends the requests of an SDK. It follows no redirect, as that would take
// the key elsewhere, and reads no body of an error, which may quote the request.
type client struct{ http http.Client }

func newClient() *client {
	return &client{http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout:    connectTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    maxCalls,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}}
}

// Do implements the interface of both SDKs. The response of a success is whole.
func (c *client) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, failure(req.Context(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &statusError{status: resp.StatusCode, after: retryAfter(resp.Header)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, failure(req.Context(), err)
	case len(body) > maxResponse:
		return nil, &unusableError{"a response that is too large"}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// What else it may be called, it has to be JSON.
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
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &brokenError{err}
}

// sdkError returns an error of an SDK without what it might quote of a response.
func sdkError(ctx context.Context, err error) error {
	var (
		status   *statusError
		broken   *brokenError
		unusable *unusableError
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
		return &unusableError{"a response that cannot be read"}
	}
}

// maxRetryAfter bounds what a provider can ask for.
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
