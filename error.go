// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Code is the kind of an error. Each code maps to one HTTP status of the REST API.
type Code string

// The codes.
const (
	CodeInvalid            Code = "INVALID_PARAMETERS"
	CodeMissingCredentials Code = "MISSING_CREDENTIALS"
	CodeInvalidAPIKey      Code = "INVALID_API_KEY"
	CodeInvalidToken       Code = "INVALID_TOKEN"
	CodeForbidden          Code = "FORBIDDEN"
	CodeNotFound           Code = "NOT_FOUND"
	CodeServiceNotFound    Code = "SERVICE_NOT_FOUND"
	CodeInsightNotFound    Code = "INSIGHT_NOT_FOUND"
	CodeMethodNotAllowed   Code = "METHOD_NOT_ALLOWED"
	CodeConflict           Code = "CONFLICT"
	CodeTooLarge           Code = "PAYLOAD_TOO_LARGE"
	CodeUnprocessable      Code = "UNPROCESSABLE_ENTITY"
	CodeRateLimited        Code = "RATE_LIMIT_EXCEEDED"
	CodeInternal           Code = "INTERNAL_ERROR"
	CodeUpstream           Code = "UPSTREAM_ERROR"
	CodeUnavailable        Code = "SERVICE_UNAVAILABLE"
)

// Error is an error with a code for callers and a message for people. The message contains no secrets and no personal
// data.
type Error struct {
	Code    Code
	Message string
	Details map[string]string // by field name; may be nil
	Err     error             // cause, for logs only; may be nil
}

// Errorf returns an Error with a formatted message. A %w operand is also set as Err. The REST API shows only Message.
func Errorf(code Code, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: wrapped.Error(), Err: errors.Unwrap(wrapped)}
}

func (e *Error) Error() string {
	if e.Message == "" && e.Err != nil {
		return string(e.Code) + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// retryError is the error that WithRetryAfter returns.
type retryError struct {
	error
	after time.Duration
}

// WithRetryAfter adds a method RetryAfter() time.Duration to an error, which returns the time to wait before a retry.
func WithRetryAfter(err error, after time.Duration) error { return &retryError{err, after} }

func (e *retryError) Unwrap() error { return e.error }

func (e *retryError) RetryAfter() time.Duration { return e.after }

// Invalid returns the error of a request with invalid parameters. details maps the name of each to its problem, such as
// "must be an integer". The message has all of them, ordered by name.
func Invalid(details map[string]string) *Error {
	return &Error{Code: CodeInvalid, Message: DescribeDetails(details), Details: details}
}

// DescribeDetails returns a message with all details, ordered by name.
func DescribeDetails(details map[string]string) string {
	problems := make([]string, 0, len(details))
	for _, name := range slices.Sorted(maps.Keys(details)) {
		problems = append(problems, name+" "+details[name])
	}
	return strings.Join(problems, "; ")
}

// ErrorCode returns the code of the first Error in the chain of err, CodeInternal for any other error, and "" for
// nil.
func ErrorCode(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
