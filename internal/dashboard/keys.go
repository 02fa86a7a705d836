// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay"
)

const (
	maxKeyDays   = 3650
	keysPageSize = 50
)

// forGood is how long a key lives unless somebody says otherwise. What sends telemetry
// with a key that ends goes silent that day, and nobody is told.
const forGood = "0"

// KeyManager manages the API keys of a session's organization. Each method returns
// CodeForbidden for a session that may not. Implementations may be used concurrently.
type KeyManager interface {
	// FindKeys returns a part of the keys: what can be used first, then the newest.
	FindKeys(ctx context.Context, s *assay.Session, page assay.Page) (*assay.APIKeyPage, error)
	// FindKey returns CodeNotFound for an id that is unknown or another organization's.
	FindKey(ctx context.Context, s *assay.Session, id string) (*assay.APIKey, error)
	// CreateKey returns a new key and its secret, which is kept nowhere. One value of once
	// makes one key in a session, and CodeConflict from then on. CodeForbidden for scopes
	// that the session does not have.
	CreateKey(ctx context.Context, s *assay.Session, once, name string, scopes []assay.Scope, expiresIn time.Duration) (*assay.APIKey, string, error)
	// RevokeKey returns CodeNotFound for an id that is unknown or another organization's.
	RevokeKey(ctx context.Context, s *assay.Session, id string) error
}

// keysPage is the list of keys, the form for a new one, and the key just made.
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

// keyForm is the form for a new key as it was sent. Once is how many keys there were
// when the form was shown: no key is deleted, so it is another one after each.
type keyForm struct{ Once, Name, Days string }

// madeKey is a key that is shown once, with what is made from it.
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
	{assay.ScopeAdmin, "create and revoke keys"},
}

func (h *Handler) keys(q *request) error {
	return q.showKeys(http.StatusOK, keysPage{Form: keyForm{Days: forGood}}, []assay.Scope{assay.ScopeIngest})
}

func (q *request) showKeys(status int, page keysPage, chosen []assay.Scope) error {
	if q.cfg.Keys == nil {
		return assay.Errorf(assay.CodeNotFound, "keys are not managed here")
	}
	if page.Admin = q.session.Admin(); !page.Admin {
		return q.render(status, "keys", view{Title: "Keys", Section: "keys", Data: page})
	}
	a := q.address()
	found, err := q.cfg.Keys.FindKeys(q.ctx, q.session, a.slice(keysPageSize))
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

// createKey makes a key and shows it in the answer, the only place where it stands.
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
	switch {
	case page.Form.Name == "":
		page.Problem = "Give the key a name, so that you know later what uses it."
	case len(scopes) == 0:
		page.Problem = "Choose what the key may do."
	case err != nil || days < 0 || days > maxKeyDays:
		page.Problem = "Choose when the key expires."
	}
	if page.Problem != "" {
		return q.showKeys(http.StatusBadRequest, page, scopes)
	}
	k, secret, err := q.cfg.Keys.CreateKey(q.ctx, q.session, q.r.PostFormValue("once"), page.Form.Name, scopes, time.Duration(days)*24*time.Hour)
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

// revokePage asks whether a key is to be revoked.
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
	if err := q.cfg.Keys.RevokeKey(q.ctx, q.session, k.ID); err != nil {
		return err
	}
	return q.redirect("/keys")
}

// findKey returns the key that the address names, which lives.
func (q *request) findKey() (*assay.APIKey, error) {
	if !q.session.Admin() || q.cfg.Keys == nil {
		return nil, errNotAdmin()
	}
	k, err := q.cfg.Keys.FindKey(q.ctx, q.session, q.r.PathValue("id"))
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

// placeholder stands where a key goes.
const placeholder = "YOUR_KEY"

// firstRun is shown while there is no data. It becomes the overview by itself.
func (q *request) firstRun() error {
	page := firstRunPage{Admin: q.session.Admin() && q.cfg.Keys != nil, Snippet: q.snippets(placeholder)}
	if page.Admin {
		counts, err := q.cfg.Keys.FindKeys(q.ctx, q.session, assay.Page{Limit: 1})
		if err != nil {
			return err
		}
		page.Once = strconv.Itoa(counts.Total)
	}
	return q.render(http.StatusOK, "firstrun", view{Title: "Send the first data", Section: "overview", Live: waitingSeconds, Data: page})
}
