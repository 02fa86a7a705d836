// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Provider is a language model somewhere. Implementations may be used
// concurrently.
type Provider interface {
	// Model returns the name of the model.
	Model() string
	// Write asks the model once and returns its text as it is. It makes no
	// retries. A response that is no success is a *StatusError, an exchange
	// without a whole response a *BrokenError, a response without a text an
	// *UnusableError. Errors hold nothing of the request and of the response.
	Write(ctx context.Context, p *Prompt) (string, error)
}

// StatusError is a response that is no success.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // when to try again, 0 when it does not say
}

func (e *StatusError) Error() string { return fmt.Sprintf("it answered with status %d", e.Status) }

// BrokenError is an exchange without a whole response.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return "the connection failed: " + e.Err.Error() }

func (e *BrokenError) Unwrap() error { return e.Err }

// UnusableError is a response from which no summary can be made.
type UnusableError struct{ What string } // such as "a refusal"

func (e *UnusableError) Error() string { return "it gave " + e.What }

// passing tells whether the same request may succeed a little later.
func passing(err error) bool {
	switch callOutcome(err) {
	case CallLimited, CallError, CallBroken:
		return true
	default:
		return false
	}
}

func callOutcome(err error) CallOutcome {
	var (
		status *StatusError
		broken *BrokenError
	)
	switch {
	case err == nil:
		return CallOK
	case errors.As(err, &status):
		switch {
		case status.Status == http.StatusTooManyRequests:
			return CallLimited
		case status.Status >= 500:
			return CallError
		default:
			return CallRefused
		}
	case errors.As(err, &broken):
		return CallBroken
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return CallTimeout
	default:
		return CallUnusable
	}
}
