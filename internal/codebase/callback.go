// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"

	"assay"
	"assay/internal/codebase/source"
)

// maxCallback limits parameters of a callback, in bytes.
const maxCallback = 2 << 10

//go:embed callback.html
var callbackText string

var callbackPage = template.Must(template.New("callback").Parse(callbackText))

// callbackData is the data of the page.
type callbackData struct {
	Problem string

	// The question, unless Organization is "".
	Organization, CreatedBy, Kind string
	Write                         bool
	Pulls                         string // the host's name for pull requests
	Action                        string // path
	Code, State, Installation     string

	// The result, unless Account is "".
	Account      string
	Repositories int
	Next         string // URL
}

// callback is the page to which a source host sends the browser of the user that has authorized.
//
// It asks before it connects: the user that authorizes may be another one than the user that created the session, and
// has to know which organization gets to read or change the repositories. The form repeats the code, which only this browser and
// the source host know, so that another site cannot send it. The state is valid once. A request that is refused because
// too many sources are being connected leaves it valid.
func (s *server) callback(w http.ResponseWriter, r *http.Request, kind string) {
	show := func(status int, d callbackData) {
		var text bytes.Buffer
		if err := callbackPage.Execute(&text, d); err != nil {
			s.cfg.Logger.ErrorContext(r.Context(), "failed to show the page of a callback", "error", err)
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Frame-Options", "DENY")
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(text.Bytes()) // the browser may have disconnected
		}
	}
	fail := func(err error) {
		status, refused := s.refusal(r.Context(), err)
		message := refused.Message
		for field, detail := range refused.Details {
			message += ": " + field + " " + detail
		}
		show(status, callbackData{Problem: message})
	}
	values := r.URL.Query()
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, 4*maxCallback)
		if err := r.ParseForm(); err != nil {
			fail(assay.Errorf(assay.CodeInvalid, "the form did not arrive"))
			return
		}
		values = r.PostForm
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		fail(assay.Errorf(assay.CodeMethodNotAllowed, "this path does not support the method"))
		return
	}
	if err := checkCallback(values); err != nil {
		fail(err)
		return
	}
	// Any client may send a state. An invalid one costs a read.
	hash := stateHash(values.Get("state"))
	ctx := assay.WithOrganization(r.Context(), assay.Anonymous)
	state, err := s.cfg.Store.OnboardingState(ctx, hash, s.cfg.Now())
	if err == nil && state.Provider != kind {
		err = assay.Errorf(assay.CodeNotFound, "")
	}
	if err == nil {
		ctx = assay.WithOrganization(ctx, state.OrganizationID)
	}
	if err != nil {
		fail(expired(err))
		return
	}
	if r.Method != http.MethodPost {
		o, err := s.cfg.Organizations.FindOrganizationByID(ctx, state.OrganizationID)
		if err != nil {
			fail(err)
			return
		}
		pulls := "pull requests"
		if kind == source.KindGitLab {
			pulls = "merge requests"
		}
		show(http.StatusOK, callbackData{
			Organization: o.Name, CreatedBy: state.CreatedBy, Kind: kindNames[kind], Write: state.Write, Pulls: pulls, Action: kind,
			Code: values.Get("code"), State: values.Get("state"), Installation: values.Get("installation_id"),
		})
		return
	}
	made, err := s.cfg.Sources.Authorize(ctx, kind, source.Grant{
		Organization: state.OrganizationID, Code: values.Get("code"), Verifier: state.Verifier, InstallationID: values.Get("installation_id"),
		Take: func(ctx context.Context) error {
			_, err := s.cfg.Store.TakeOnboardingState(ctx, hash, s.cfg.Now())
			return expired(err)
		},
	}, s.callbackURL(kind))
	if err != nil {
		s.cfg.Logger.InfoContext(ctx, "failed to connect a source host", "kind", kind, "error", err)
		fail(err)
		return
	}
	if err := s.connectForge(ctx, state, made); err != nil {
		fail(err)
		return
	}
	show(http.StatusOK, callbackData{Account: made.Account, Repositories: len(made.Repositories), Next: s.cfg.RepositoriesURL})
}

var kindNames = map[string]string{source.KindGitHub: "GitHub", source.KindGitLab: "GitLab", source.KindGitea: "Gitea"}

func stateHash(state string) [32]byte { return sha256.Sum256([]byte(state)) }

// checkCallback returns an error for parameters that cannot come from an authorization.
func checkCallback(values url.Values) error {
	for _, name := range []string{"code", "state", "installation_id", "setup_action", "error"} {
		if all := values[name]; len(all) > 1 || len(all) == 1 && len(all[0]) > maxCallback {
			return assay.Errorf(assay.CodeInvalid, "the parameter %s is repeated or too long", name)
		}
	}
	switch {
	case values.Get("error") != "":
		return assay.Errorf(assay.CodeInvalid, "the source host did not authorize the connection")
	case values.Get("setup_action") == "request":
		return assay.Errorf(assay.CodeConflict, "an owner of the organization at GitHub has to approve the installation; connect it again afterwards")
	case values.Get("state") == "":
		return assay.Errorf(assay.CodeInvalid, "the state is missing: begin on the page Connect a repository")
	case values.Get("code") == "":
		return assay.Errorf(assay.CodeInvalid, "the code is missing: a GitHub App has to request the user's authorization during installation")
	}
	return nil
}

// expired explains a state that does not exist. It says no more about states of others.
func expired(err error) error {
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return assay.Errorf(assay.CodeForbidden, "the state is not valid: it was used, or has expired; begin again on the page Connect a repository")
	}
	return err
}
