// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"errors"
	"fmt"
)

// Code says what kind of failure an error is. Each code belongs to one HTTP
// status of the REST API.
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

// Error is a failure with a code that callers act on and a message for people.
// The message never holds a secret or personal data.
type Error struct {
	Code    Code
	Message string
	Details map[string]string // by field name; may be nil
	Err     error             // what caused it; for logs only, may be nil
}

// Errorf returns an Error with a formatted message. A %w operand becomes Err
// and is left to logs: the REST API shows Message alone.
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

// ErrorCode returns the code of err: the one of the first Error in its chain,
// CodeInternal for any other error, "" for nil.
func ErrorCode(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
