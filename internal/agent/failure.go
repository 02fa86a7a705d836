// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay"
	"assay/internal/safetext"
)

const (
	// defaultRetry is the delay before a call that may succeed later, if the backend sends no Retry-After.
	defaultRetry = 5 * time.Second
	// noRetry is the delay if it is unknown.
	noRetry = -1 * time.Second
	// maxRetry limits the delay that the backend can request.
	maxRetry = 30 * 24 * time.Hour
	// maxCause is the maximum number of bytes of a cause in the log. Errors of net/http may quote the backend's
	// response.
	maxCause = 200
)

// failure is an error with a message for the caller and a cause for the log.
type failure struct {
	public      *assay.Error
	backendCode string // error code of the backend, or ""
	cause       string
	after       time.Duration
}

func (f *failure) Error() string {
	if f.cause == "" {
		return f.public.Message
	}
	return f.public.Message + ": " + f.cause
}

func (f *failure) Unwrap() error { return f.public }

// RetryAfter returns the delay before the next attempt, or a negative value if it is unknown.
func (f *failure) RetryAfter() time.Duration { return f.after }

// BackendCode returns the error code of the backend, or "" if it sent no valid code.
func (f *failure) BackendCode() string { return f.backendCode }

func newFailure(code assay.Code, message string, cause error, after time.Duration) *failure {
	f := &failure{public: &assay.Error{Code: code, Message: message}, after: after}
	if cause != nil {
		f.cause = strings.ToValidUTF8(safetext.Cut(cause.Error(), maxCause), "")
	}
	return f
}

// upstream returns the error of a failed exchange.
func upstream(message string, cause error) error {
	return newFailure(assay.CodeUpstream, message, cause, noRetry)
}

// unavailable returns the error of a call that may succeed later.
func unavailable(message string, cause error, after time.Duration) error {
	return newFailure(assay.CodeUnavailable, message, cause, after)
}

// refusals are the statuses that are passed on to the caller, with their codes and default messages.
var refusals = map[int]struct {
	code    assay.Code
	message string
}{
	http.StatusBadRequest:            {assay.CodeInvalid, "the agent backend takes the request for invalid"},
	http.StatusForbidden:             {assay.CodeForbidden, "the agent backend does not allow this"},
	http.StatusNotFound:              {assay.CodeNotFound, "the agent backend does not have this"},
	http.StatusConflict:              {assay.CodeConflict, "the agent backend reports a conflict with the current state"},
	http.StatusRequestEntityTooLarge: {assay.CodeTooLarge, "the request is too large for the agent backend"},
	http.StatusUnprocessableEntity:   {assay.CodeUnprocessable, "the agent backend cannot process the request"},
	http.StatusTooManyRequests:       {assay.CodeRateLimited, "the agent backend has had too many requests"},
}

// Limits of a refusal, in bytes.
const (
	maxRefusal    = 64 << 10 // body
	maxMessage    = 1 << 10
	maxDetails    = 32 // number of details
	maxDetailName = 128
	maxDetail     = 512
)

// backendCode matches the codes of a backend that are passed on. They need not be codes of this API.
var backendCode = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// refusal returns the error for a status of refusals. It takes message, code and details from the body if the body has
// the error format of the API, and ignores any other body.
func refusal(status int, body []byte, after time.Duration) error {
	kind := refusals[status]
	f := newFailure(kind.code, kind.message, nil, after)
	if !isJSON(body) {
		return f
	}
	var code, message string
	var details map[string]string
	members(body, func(name string, value []byte) {
		if name != "error" {
			return
		}
		members(value, func(name string, value []byte) {
			switch name {
			case "code":
				code = text(value, maxMessage)
			case "message":
				message = text(value, maxMessage)
			case "details":
				details = map[string]string{}
				members(value, func(name string, value []byte) {
					if s := text(value, maxDetail); s != "" && name != "" && len(name) <= maxDetailName && len(details) < maxDetails {
						details[name] = s
					}
				})
			}
		})
	})
	if message == "" {
		return f
	}
	f.public.Message = message
	if len(details) > 0 {
		f.public.Details = details
	}
	if backendCode.MatchString(code) {
		f.backendCode = code
	}
	return f
}

// retryAfter returns the delay that a response requests, or otherwise.
func retryAfter(h http.Header, now time.Time, otherwise time.Duration) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return otherwise
	}
	if strings.Trim(v, "0123456789") == "" {
		seconds, err := strconv.ParseInt(v, 10, 64)
		if err != nil { // out of range
			return maxRetry
		}
		return time.Duration(min(seconds, int64(maxRetry/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return otherwise
	}
	// Use the Date of the backend, so that the result does not depend on the clock of this server.
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return min(max(at.Sub(now), 0), maxRetry)
}
