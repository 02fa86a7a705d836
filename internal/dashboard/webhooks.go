// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"assay"
	"assay/internal/lists"
)

const deliveriesPageSize = 50

// webhooksPage is the list of webhooks, the form for a new one, and the webhook that was just created.
type webhooksPage struct {
	Rows    []*assay.Webhook
	Admin   bool
	Form    webhookForm
	Problem string // with the form
	Made    *madeWebhook
	Impacts []option
	Types   []option // insight types
	MaxName int
	MaxURL  int
}

// webhookForm is a submitted form for a new webhook. Environments has one a line. No types means all.
type webhookForm struct {
	Name, URL, MinSeverity, Environments string
	Types                                []string
}

// madeWebhook is a new webhook with its secret, which is shown once.
type madeWebhook struct {
	*assay.Webhook
	Secret string
}

// webhookPage is one webhook with its deliveries.
type webhookPage struct {
	*assay.Webhook
	Target  string // the URL as the session may see it
	Types   []string
	Admin   bool
	List    []*assay.WebhookDelivery
	Pager   pager
	Problem string
}

func errNoWebhooks() error {
	return assay.Errorf(assay.CodeForbidden, "Managing webhooks needs a session with the scope admin.")
}

func (h *Handler) webhooks(q *request) error {
	return q.showWebhooks(http.StatusOK, webhooksPage{Form: webhookForm{MinSeverity: string(assay.ImpactLow)}})
}

func (q *request) showWebhooks(status int, page webhooksPage) error {
	if q.cfg.Webhooks == nil {
		return assay.Errorf(assay.CodeNotFound, "this server has no webhooks")
	}
	found, err := q.cfg.Webhooks.List(q.ctx, q.organization())
	if err != nil {
		return err
	}
	page.Rows, page.Admin, page.MaxName, page.MaxURL = found, q.session.Admin(), assay.MaxWebhookName, assay.MaxWebhookURL
	page.Impacts = options(page.Form.MinSeverity,
		option{Value: "Low", Label: "Low and above"}, option{Value: "Normal", Label: "Normal and above"},
		option{Value: "Important", Label: "Important and above"}, option{Value: "Critical", Label: "Critical"})
	page.Types = lists.Map(q.rules, func(r *ruleText) option {
		return option{Value: r.Name, Label: r.Title, Chosen: slices.Contains(page.Form.Types, r.Name)}
	})
	return q.render(status, "webhooks", view{Title: "Webhooks", Section: "keys", Data: page})
}

// createWebhook creates a webhook and shows its secret in the response, the only place that contains it.
func (h *Handler) createWebhook(q *request) error {
	if !q.session.Admin() || q.cfg.Webhooks == nil {
		return errNoWebhooks()
	}
	if err := q.readForm(); err != nil {
		return err
	}
	page := webhooksPage{Form: webhookForm{
		Name: strings.TrimSpace(q.r.PostFormValue("name")), URL: strings.TrimSpace(q.r.PostFormValue("url")),
		MinSeverity: q.r.PostFormValue("min_severity"), Environments: q.r.PostFormValue("environments"),
		Types: q.r.PostForm["type"],
	}}
	w := &assay.Webhook{
		OrganizationID: q.organization(), Name: page.Form.Name, URL: page.Form.URL, Enabled: true, MinSeverity: assay.Impact(page.Form.MinSeverity),
		Environments: strings.FieldsFunc(page.Form.Environments, func(r rune) bool { return r == '\r' || r == '\n' }),
		EventTypes:   page.Form.Types,
	}
	existing, err := q.cfg.Webhooks.List(q.ctx, q.organization())
	if err != nil {
		return err
	}
	// A reload or a second click sends the form again.
	if slices.ContainsFunc(existing, func(e *assay.Webhook) bool { return e.Name == w.Name && e.URL == w.URL }) {
		page.Problem = "A webhook with this name and URL exists."
		return q.showWebhooks(http.StatusConflict, page)
	}
	secret, err := q.cfg.Webhooks.Create(q.ctx, w)
	switch code := assay.ErrorCode(err); {
	case code == assay.CodeInvalid:
		page.Problem = problemOf(err)
		return q.showWebhooks(http.StatusBadRequest, page)
	case code == assay.CodeConflict:
		page.Problem = messageOf(err, "The webhook cannot be created now.")
		return q.showWebhooks(http.StatusConflict, page)
	case err != nil:
		return err
	}
	return q.showWebhooks(http.StatusOK, webhooksPage{Form: webhookForm{MinSeverity: string(assay.ImpactLow)}, Made: &madeWebhook{w, secret}})
}

func (h *Handler) webhook(q *request) error { return q.showWebhook(http.StatusOK, "") }

func (q *request) showWebhook(status int, problem string) error {
	if q.cfg.Webhooks == nil {
		return assay.Errorf(assay.CodeNotFound, "this server has no webhooks")
	}
	w, err := q.cfg.Webhooks.Find(q.ctx, q.organization(), q.r.PathValue("id"))
	if err != nil {
		return err
	}
	page := webhookPage{Webhook: w, Target: w.HostURL(), Admin: q.session.Admin(), Problem: problem}
	if page.Admin {
		page.Target = w.URL
	}
	page.Types = lists.Map(w.EventTypes, func(name string) string { return q.ruleOf(name).Title })
	a := address{path: "/webhooks/" + w.ID, query: q.r.URL.Query()}
	var total int
	if page.List, total, err = q.cfg.Webhooks.Deliveries(q.ctx, q.organization(), w.ID, a.slice(deliveriesPageSize)); err != nil {
		return err
	}
	if page.Pager = a.pager(deliveriesPageSize, len(page.List), total); page.Pager.beyond() && q.reads() {
		return q.redirect(page.Pager.Previous)
	}
	return q.render(status, "webhook", view{Title: plain(w.Name), Section: "keys", Live: liveSeconds, Data: page})
}

// findWebhook returns the webhook that the address names, for a change.
func (q *request) findWebhook() (*assay.Webhook, error) {
	if !q.session.Admin() || q.cfg.Webhooks == nil {
		return nil, errNoWebhooks()
	}
	return q.cfg.Webhooks.Find(q.ctx, q.organization(), q.r.PathValue("id"))
}

// enableWebhook enables or disables a webhook.
func (h *Handler) enableWebhook(enabled bool) func(*request) error {
	return func(q *request) error {
		w, err := q.findWebhook()
		if err != nil {
			return err
		}
		w.Enabled = enabled
		err = q.cfg.Webhooks.Update(q.ctx, w)
		if assay.ErrorCode(err) == assay.CodeInvalid { // the operator no longer allows the URL
			return q.showWebhook(http.StatusConflict, problemOf(err))
		}
		return q.done(err, "/webhooks/"+w.ID)
	}
}

// testWebhook sends a test event. The page then lists its delivery.
func (h *Handler) testWebhook(q *request) error {
	w, err := q.findWebhook()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), assay.WebhookTestTime)
	defer cancel()
	_, err = q.cfg.Webhooks.Test(ctx, q.organization(), w.ID)
	if assay.ErrorCode(err) == assay.CodeRateLimited {
		return q.showWebhook(http.StatusConflict, messageOf(err, "Too many webhooks are being tested."))
	}
	return q.done(err, "/webhooks/"+w.ID)
}

func (h *Handler) confirmDeleteWebhook(q *request) error {
	w, err := q.findWebhook()
	if err != nil {
		return err
	}
	return q.render(http.StatusOK, "deletewebhook", view{Title: "Delete a webhook", Section: "keys", Data: w})
}

func (h *Handler) deleteWebhook(q *request) error {
	w, err := q.findWebhook()
	if err != nil {
		return err
	}
	return q.done(q.cfg.Webhooks.Delete(q.ctx, q.organization(), w.ID), "/webhooks")
}

// webhookFields are the names of fields in the form.
var webhookFields = []pair{{"name", "Name"}, {"url", "URL"}, {"min_severity", "Impact"}, {"environments", "Environments"}}

// problemOf returns the details of an error for the user.
func problemOf(err error) string {
	var texts []string
	if e, ok := errors.AsType[*assay.Error](err); ok {
		for _, field := range webhookFields {
			if detail := e.Details[field.Key]; detail != "" {
				texts = append(texts, field.Value+" "+detail+".")
			}
		}
	}
	return cmp.Or(strings.Join(texts, " "), messageOf(err, "The webhook is not valid."))
}
