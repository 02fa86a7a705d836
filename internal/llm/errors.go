// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// StatusError is a response that is no success.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // 0: not known
}

func (e *StatusError) Error() string { return fmt.Sprintf("it answered with status %d", e.Status) }

// BrokenError is an exchange without a whole response.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return "the connection failed: " + e.Err.Error() }

func (e *BrokenError) Unwrap() error { return e.Err }

// UnusableError is a response that cannot be used.
type UnusableError struct{ What string } // such as "a refusal"

func (e *UnusableError) Error() string { return "it gave " + e.What }

// Transient reports whether the same request may succeed later: after a 429, a 5xx or a broken connection.
func Transient(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status == http.StatusTooManyRequests || status.Status >= 500
	}
	return errors.As(err, new(*BrokenError))
}
