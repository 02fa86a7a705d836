// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay"
)

const (
	keysPageSize = 50
	maxOnce      = 64 // bytes
)

// forGood is the default lifetime of a key: it does not expire. Telemetry sent with an expired key is lost, and there
// is no notification of the expiry.
const forGood = "0"

// keysPage is the list of keys, the form for a new key, and the key that was just created.
type keysPage struct {
	Rows     []keyRow
	Pager    pager
	Admin    bool
	Scopes   []scopeOption
	Form     keyForm
	MaxName  int
	Problem  string // with the form
	Made     *madeKey
	Lifetime []option
}

type keyRow struct {
	*assay.APIKey
	State string // live, expired or revoked
	Own   bool   // of the session
}

// scopeOption is a scope that a new key can have.
type scopeOption struct {
	Scope   assay.Scope
	Text    string
	Chosen  bool
	Allowed bool // the session has it
}

// keyForm is a submitted form for a new key. Once is the number of keys when the form was shown. Keys are never
// deleted, so it differs after each creation.
type keyForm struct{ Once, Name, Days string }

// madeKey is a new key with its snippets. It is shown once.
type madeKey struct {
	*assay.APIKey
	Secret  string
	Snippet *snippets // nil for a key that may not send
}

var scopeTexts = []struct {
	scope assay.Scope
	text  string
}{
	{assay.ScopeIngest, "send telemetry"},
	{assay.ScopeRead, "read scores, insights and cost; sign in here"},
	{assay.ScopeAgent, "use the codebase agent"},
	{assay.ScopeAdmin, "manage keys and webhooks"},
}

func (h *Handler) keys(q *request) error {
	return q.showKeys(http.StatusOK, keysPage{Form: keyForm{Days: forGood}}, []assay.Scope{assay.ScopeIngest})
}

func (q *request) showKeys(status int, page keysPage, chosen []assay.Scope) error {
	if q.cfg.Keys == nil {
		return assay.Errorf(assay.CodeNotFound, "this server does not manage API keys")
	}
	if page.Admin = q.session.Admin(); !page.Admin {
		return q.render(status, "keys", view{Title: "Keys", Section: "keys", Data: page})
	}
	a := q.address()
	found, err := q.cfg.Keys.FindKeys(q.ctx, q.session.Principal(), a.slice(keysPageSize))
	if err != nil {
		return err
	}
	if page.Pager = a.pager(keysPageSize, len(found.Keys), found.Total); page.Pager.beyond() {
		return q.redirect(page.Pager.Previous)
	}
	for _, k := range found.Keys {
		row := keyRow{APIKey: k, State: "live", Own: q.session.KeyID == k.ID}
		switch {
		case !k.RevokedAt.IsZero():
			row.State = "revoked"
		case !k.Live(q.now):
			row.State = "expired"
		}
		page.Rows = append(page.Rows, row)
	}
	page.Form.Once, page.MaxName = strconv.Itoa(found.Total), assay.MaxAPIKeyName
	for _, s := range scopeTexts {
		page.Scopes = append(page.Scopes, scopeOption{s.scope, s.text, slices.Contains(chosen, s.scope), q.session.Allows(s.scope)})
	}
	page.Lifetime = options(page.Form.Days,
		option{Value: "7", Label: "7 days"}, option{Value: "30", Label: "30 days"}, option{Value: "90", Label: "90 days"},
		option{Value: "365", Label: "a year"}, option{Value: "0", Label: "never"})
	return q.render(status, "keys", view{Title: "Keys", Section: "keys", Data: page})
}

// createKey creates a key and shows it in the response, the only place that contains it.
func (h *Handler) createKey(q *request) error {
	if !q.session.Admin() || q.cfg.Keys == nil {
		return errNotAdmin()
	}
	if err := q.readForm(); err != nil {
		return err
	}
	page := keysPage{Form: keyForm{Name: strings.TrimSpace(q.r.PostFormValue("name")), Days: q.r.PostFormValue("days")}}
	var scopes []assay.Scope
	for _, s := range q.r.PostForm["scope"] {
		if scope := assay.Scope(s); slices.Contains(assay.Scopes(), scope) && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	days, err := strconv.Atoi(page.Form.Days)
	once := q.r.PostFormValue("once")
	switch {
	case page.Form.Name == "":
		page.Problem = "Give the key a name, so that you know later what uses it."
	case len(scopes) == 0:
		page.Problem = "Choose what the key may do."
	case err != nil || days < 0 || days > int(assay.MaxAPIKeyLife/(24*time.Hour)):
		page.Problem = "Choose when the key expires."
	case once == "" || len(once) > maxOnce:
		page.Problem = "The form was not complete. Send it again."
	}
	if page.Problem != "" {
		return q.showKeys(http.StatusBadRequest, page, scopes)
	}
	k, secret, err := q.cfg.Keys.CreateKey(q.ctx, q.session.Principal(), assay.NewAPIKey{
		Name: page.Form.Name, Scopes: scopes, ExpiresIn: time.Duration(days) * 24 * time.Hour,
		Once: string(q.session.Hash[:]) + once, // the form of this session
	})
	switch assay.ErrorCode(err) {
	case "":
	case assay.CodeInvalid:
		page.Problem = messageOf(err, "The key cannot be made like that.")
		return q.showKeys(http.StatusBadRequest, page, scopes)
	case assay.CodeConflict:
		page.Problem = messageOf(err, "The key cannot be made now.")
		return q.showKeys(http.StatusConflict, page, scopes)
	default:
		return err
	}
	made := &madeKey{APIKey: k, Secret: secret}
	if k.Allows(assay.ScopeIngest) {
		s := q.snippets(secret)
		made.Snippet = &s
	}
	return q.showKeys(http.StatusOK, keysPage{Form: keyForm{Days: forGood}, Made: made}, []assay.Scope{assay.ScopeIngest})
}

func errNotAdmin() error {
	return assay.Errorf(assay.CodeForbidden, "Managing keys needs a key with the scope admin, such as the first one of the server, or a user whom the identity provider calls an administrator.")
}

// revokePage asks for confirmation before a key is revoked.
type revokePage struct {
	*assay.APIKey
	Own bool
}

func (h *Handler) confirmRevoke(q *request) error {
	k, err := q.findKey()
	if err != nil {
		return err
	}
	return q.render(http.StatusOK, "revoke", view{Title: "Revoke a key", Section: "keys", Data: revokePage{k, q.session.KeyID == k.ID}})
}

func (h *Handler) revokeKey(q *request) error {
	k, err := q.findKey()
	if err != nil {
		return err
	}
	return q.done(q.cfg.Keys.RevokeKey(q.ctx, q.session.Principal(), k.ID), "/keys")
}

// findKey returns the live key that the address names.
func (q *request) findKey() (*assay.APIKey, error) {
	if !q.session.Admin() || q.cfg.Keys == nil {
		return nil, errNotAdmin()
	}
	k, err := q.cfg.Keys.FindKey(q.ctx, q.session.Principal(), q.r.PathValue("id"))
	if err == nil && !k.RevokedAt.IsZero() {
		err = assay.Errorf(assay.CodeNotFound, "the key is revoked")
	}
	return k, err
}

// firstRunPage shows how to send the first data.
type firstRunPage struct {
	Admin   bool
	Once    string // of the form
	Snippet snippets
}

// placeholder replaces the key in snippets.
const placeholder = "YOUR_KEY"

// firstRun is shown until the organization has data. The script then replaces it by the overview.
func (q *request) firstRun() error {
	page := firstRunPage{Admin: q.session.Admin() && q.cfg.Keys != nil, Snippet: q.snippets(placeholder)}
	if page.Admin {
		counts, err := q.cfg.Keys.FindKeys(q.ctx, q.session.Principal(), assay.Page{Limit: 1})
		if err != nil {
			return err
		}
		page.Once = strconv.Itoa(counts.Total)
	}
	return q.render(http.StatusOK, "firstrun", view{Title: "Send the first data", Section: "overview", Live: waitingSeconds, Data: page})
}
