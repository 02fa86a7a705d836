// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"context"
	"errors"
	"net/http"

	"assay/internal/llm"
)

// Provider is the client of a language model. Implementations must be safe for concurrent use.
type Provider interface {
	// Model returns the name of the model.
	Model() string
	// Write asks the model once for a text about a document. It returns the errors of llm.Client.
	Write(ctx context.Context, system, document string) (string, error)
}

// ofPrompt reports whether a failure is caused by the prompt, which contains data of an organization. It says nothing
// about the provider and must not pause other summaries.
func ofPrompt(err error) bool {
	if status, ok := errors.AsType[*llm.StatusError](err); ok {
		switch status.Status {
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity: // a content filter, too
			return true
		}
	}
	return callOutcome(err) == CallUnusable
}

func callOutcome(err error) CallOutcome {
	var status *llm.StatusError
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
	case errors.As(err, new(*llm.BrokenError)):
		return CallBroken
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return CallTimeout
	default:
		return CallUnusable
	}
}
