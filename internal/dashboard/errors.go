// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"assay"
)

// errorPage is an error and the actions that are offered.
type errorPage struct {
	Status      int
	Title, Text string

	// Actions.
	Retry bool    // the same page again
	Again *resend // the same form again; nil for none
	Form  string  // the page that had the form; "" for none
	Leave bool    // the overview
}

// resend is a rejected form with its values.
type resend struct {
	Target string
	Fields []pair
}

// fail answers with an error page. The text of an internal error is only logged.
func (q *request) fail(err error) {
	if q.r.Context().Err() != nil {
		return // the client has disconnected
	}
	switch statusOf(err) {
	case http.StatusNotFound:
		text := "It may have been removed: a service goes when it has sent nothing for the whole window, and its insights go with it."
		if assay.ErrorCode(err) == assay.CodeNotFound {
			text = "There is no page at this address."
		}
		q.showError(http.StatusNotFound, "Not found", text)
	case http.StatusForbidden:
		q.showError(http.StatusForbidden, "Not allowed", messageOf(err, "Your session may not do this."))
	case http.StatusBadRequest:
		q.showError(http.StatusBadRequest, "Invalid request", messageOf(err, "The address or the form is not valid."))
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		q.log(slog.LevelWarn, err)
		q.w.Header().Set("Retry-After", "5")
		q.showError(http.StatusServiceUnavailable, "The data cannot be reached",
			"The store does not answer at the moment. Nothing is lost: what was accepted is kept.")
	default:
		q.log(slog.LevelError, err)
		q.showError(http.StatusInternalServerError, "Something went wrong", "The server's log has the cause. Trying again may help.")
	}
}

// statusOf returns the status of an error's page.
func statusOf(err error) int {
	switch assay.ErrorCode(err) {
	case assay.CodeNotFound, assay.CodeServiceNotFound, assay.CodeInsightNotFound:
		return http.StatusNotFound
	case assay.CodeForbidden:
		return http.StatusForbidden
	case assay.CodeInvalid:
		return http.StatusBadRequest
	case assay.CodeUnavailable, assay.CodeUpstream:
		return http.StatusServiceUnavailable
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return http.StatusServiceUnavailable // out of time
	}
	return http.StatusInternalServerError
}

// refused reports whether an error says what is wrong with a form.
func refused(err error) bool {
	code := assay.ErrorCode(err)
	return code == assay.CodeInvalid || code == assay.CodeConflict || code == assay.CodeUnprocessable
}

// messageOf returns the message of an error for the user.
func messageOf(err error, otherwise string) string {
	if e, ok := errors.AsType[*assay.Error](err); ok && e.Message != "" {
		return sentence(e.Message)
	}
	return otherwise
}

// sentence returns an error message as a sentence.
func sentence(message string) string {
	if strings.HasSuffix(message, ".") {
		return title(message)
	}
	return title(message) + "."
}

func (q *request) log(level slog.Level, err error) {
	attrs := []any{"method", q.r.Method, "path", q.r.URL.Path, "error", err}
	if e, ok := errors.AsType[*assay.Error](err); ok && e.Err != nil { // the text of an Error may leave it out
		attrs = append(attrs, "cause", e.Err)
	}
	q.cfg.Logger.Log(q.r.Context(), level, "page failed", attrs...)
}

// showError answers with an error page. It makes no reads that could fail.
func (q *request) showError(status int, title, text string) {
	page := errorPage{Status: status, Title: title, Text: text, Leave: q.r.URL.Path != "/"}
	mayPass := status >= http.StatusInternalServerError
	if q.reads() {
		page.Retry = mayPass
	} else if q.r.Method == http.MethodPost {
		if page.Form = formPage(q.r.URL.Path); page.Form == "/" {
			page.Form = ""
		}
		if mayPass {
			page.Again = q.resend()
		}
	}
	if err := q.render(status, "error", view{Title: title, Data: page}); err != nil {
		q.log(slog.LevelError, err)
		http.Error(q.w, http.StatusText(status), status)
	}
}

// resend returns the form of the request, nil when it cannot be read.
func (q *request) resend() *resend {
	if q.readForm() != nil {
		return nil
	}
	form := &resend{Target: q.r.URL.Path}
	for _, name := range slices.Sorted(maps.Keys(q.r.PostForm)) {
		for _, value := range q.r.PostForm[name] {
			form.Fields = append(form.Fields, pair{name, value})
		}
	}
	return form
}
