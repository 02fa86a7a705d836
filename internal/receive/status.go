// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"assay"
	"assay/internal/wire"
)

// retryAfter is the retry delay for errors that do not specify one.
const retryAfter = time.Second

// retryDelay returns the retry delay for err.
func retryDelay(err error) time.Duration {
	var retry interface{ RetryAfter() time.Duration }
	if errors.As(err, &retry) {
		return retry.RetryAfter()
	}
	return retryAfter
}

// Outcome is the result of a request.
type Outcome string

// The outcomes.
const (
	Accepted        Outcome = "accepted"
	Invalid         Outcome = "invalid" // malformed, or refused by the Ingester
	Unauthenticated Outcome = "unauthenticated"
	Forbidden       Outcome = "forbidden"
	Slow            Outcome = "slow" // did not arrive in time
	TooLarge        Outcome = "too_large"
	Unsupported     Outcome = "unsupported" // content type, encoding or method
	RateLimited     Outcome = "rate_limited"
	Unavailable     Outcome = "unavailable" // overload, shutdown, or the store is unavailable
	Canceled        Outcome = "canceled"    // the sender disconnected
	Failed          Outcome = "failed"      // an internal error
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{
		Accepted, Invalid, Unauthenticated, Forbidden, Slow, TooLarge, Unsupported, RateLimited, Unavailable, Canceled, Failed,
	}
}

// answer is the response status of an outcome.
type answer struct {
	http  int
	grpc  codes.Code
	retry bool // retryable after retryDelay
}

// answer returns the statuses that the OTLP specification defines: senders retry 429, 502, 503 and 504, UNAVAILABLE,
// CANCELLED, DEADLINE_EXCEEDED and similar codes, and RESOURCE_EXHAUSTED only with a RetryInfo.
func (o Outcome) answer() answer {
	switch o {
	case Accepted:
		return answer{http: http.StatusOK, grpc: codes.OK}
	case Invalid:
		return answer{http: http.StatusBadRequest, grpc: codes.InvalidArgument}
	case Unauthenticated:
		return answer{http: http.StatusUnauthorized, grpc: codes.Unauthenticated}
	case Forbidden:
		return answer{http: http.StatusForbidden, grpc: codes.PermissionDenied}
	case Slow:
		return answer{http: http.StatusRequestTimeout, grpc: codes.DeadlineExceeded}
	case TooLarge:
		return answer{http: http.StatusRequestEntityTooLarge, grpc: codes.ResourceExhausted}
	case Unsupported:
		return answer{http: http.StatusUnsupportedMediaType, grpc: codes.Unimplemented}
	case RateLimited:
		return answer{http: http.StatusTooManyRequests, grpc: codes.ResourceExhausted, retry: true}
	case Unavailable:
		return answer{http: http.StatusServiceUnavailable, grpc: codes.Unavailable, retry: true}
	case Canceled:
		return answer{http: http.StatusServiceUnavailable, grpc: codes.Canceled, retry: true}
	default:
		return answer{http: http.StatusInternalServerError, grpc: codes.Internal}
	}
}

// refusal is an error that originates in this package.
type refusal struct {
	outcome Outcome
	message string
}

func (e *refusal) Error() string { return e.message }

var (
	errDraining         = &refusal{Unavailable, "shutting down"}
	errBusy             = &refusal{Unavailable, "too much telemetry in flight"}
	errSlow             = &refusal{Slow, "timeout while receiving the request"}
	errCanceled         = &refusal{Canceled, "client disconnected"}
	errCompressedSize   = &refusal{TooLarge, "compressed body is too large"}
	errUncompressedSize = &refusal{TooLarge, "uncompressed body is too large"}
	errTruncated        = &refusal{Invalid, "unexpected end of body"}
	errScope            = &refusal{Forbidden, "credential does not permit sending telemetry"}
	errMediaType        = &refusal{Unsupported, "Content-Type must be application/x-protobuf or application/json"}
	errEncoding         = &refusal{Unsupported, "Content-Encoding must be one of identity, gzip and zstd"}
	errNoMessage        = &refusal{Invalid, "call has no message"}
	errTwoMessages      = &refusal{Invalid, "call has more than one message"}
	errFrame            = &refusal{Invalid, "compressed flag does not match grpc-encoding"}
)

// classify returns the outcome of a request that ended with err, which may be nil, and the message for its sender.
func classify(err error) (Outcome, string) {
	if err == nil {
		return Accepted, ""
	}
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.outcome, e.message
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return Invalid, e.Error()
	}
	if e, ok := errors.AsType[*assay.Error](err); ok {
		switch e.Code {
		case assay.CodeInvalid, assay.CodeUnprocessable:
			return Invalid, e.Message
		case assay.CodeMissingCredentials, assay.CodeInvalidAPIKey, assay.CodeInvalidToken:
			return Unauthenticated, e.Message
		case assay.CodeForbidden:
			return Forbidden, e.Message
		case assay.CodeTooLarge:
			return TooLarge, e.Message
		case assay.CodeRateLimited:
			return RateLimited, e.Message
		case assay.CodeUnavailable:
			return Unavailable, e.Message
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable, "not committed in time"
	case errors.Is(err, context.Canceled):
		return errCanceled.outcome, errCanceled.message
	}
	return Failed, "internal error"
}
