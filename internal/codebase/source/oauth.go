// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"assay"
)

// oauthForge is the kinds gitlab and gitea, whose hosts issue tokens to an OAuth application on behalf of a user.
type oauthForge struct {
	*forgeHost
	userPath, listPath string // paths of the API
	pageSize           int    // items on a page of listPath
	writeScopes        []string
}

func newGitLab(cfg ForgeConfig, g *git) (*oauthForge, error) {
	h, err := newForgeHost(KindGitLab, cfg, "/api/v4", g)
	if err != nil {
		return nil, err
	}
	h.oauth.Endpoint.AuthURL, h.oauth.Endpoint.TokenURL = h.base+"/oauth/authorize", h.base+"/oauth/token"
	h.oauth.Scopes = []string{"read_api", "read_repository"}
	// 20 is the access level of a reporter, the lowest level that can clone.
	return &oauthForge{h, "/user", "/projects?membership=true&simple=true&archived=false&min_access_level=20&order_by=id&sort=asc&per_page=100", 100, []string{"api", "write_repository"}}, nil
}

func newGitea(cfg ForgeConfig, g *git) (*oauthForge, error) {
	h, err := newForgeHost(KindGitea, cfg, "/api/v1", g)
	if err != nil {
		return nil, err
	}
	h.oauth.Endpoint.AuthURL, h.oauth.Endpoint.TokenURL = h.base+"/login/oauth/authorize", h.base+"/login/oauth/access_token"
	h.oauth.Scopes = []string{"read:user", "read:repository"}
	return &oauthForge{h, "/user", "/user/repos?limit=50", 50, []string{"read:user", "write:repository"}}, nil
}

func (f *oauthForge) host() *forgeHost { return f.forgeHost }

func (f *oauthForge) config(callback string) *oauth2.Config {
	c := f.oauth
	c.RedirectURL = callback
	return &c
}

func (f *oauthForge) authorizeURL(state, verifier, callback string, write bool) string {
	c := f.config(callback)
	if write {
		c.Scopes = f.writeScopes
	}
	return c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))
}

// oauthRepository is a repository in answers of both kinds, each of which has one of the names.
type oauthRepository struct {
	GitLabName string `json:"path_with_namespace"`
	GiteaName  string `json:"full_name"`
	Branch     string `json:"default_branch"`
	Empty      bool   `json:"empty"`
}

// connect returns the repositories that the user may read.
func (f *oauthForge) connect(ctx context.Context, grant Grant, callback string) (*Connection, error) {
	token, err := f.exchange(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return f.config(callback).Exchange(ctx, grant.Code, oauth2.VerifierOption(grant.Verifier))
	})
	if err != nil {
		return nil, err
	}
	var user struct {
		ID         int64  `json:"id"`
		GitLabName string `json:"username"`
		GiteaName  string `json:"login"`
	}
	if err := f.call(ctx, http.MethodGet, f.userPath, token.AccessToken, nil, &user); err != nil {
		return nil, err
	}
	login := cmp.Or(user.GitLabName, user.GiteaName)
	if user.ID <= 0 || login == "" {
		return nil, f.trouble("sent an answer that is not as documented")
	}
	c := &Connection{Provider: f.kind, ExternalID: strconv.FormatInt(user.ID, 10), Account: f.account(login), Credential: oauthCredential(token)}
	err = f.pages(ctx, f.listPath, token.AccessToken, f.pageSize, func() any { return new(items[oauthRepository]) }, func(a any) int {
		all := *a.(*items[oauthRepository])
		for _, r := range all {
			if known, ok := f.repository(cmp.Or(r.GitLabName, r.GiteaName), r.Branch); ok && !r.Empty {
				c.Repositories = append(c.Repositories, known)
			}
		}
		return len(all)
	})
	return c, err
}

// oauthCredential returns the credential for a token. Hosts of both kinds accept the token as the password of any user.
func oauthCredential(t *oauth2.Token) Credential {
	return Credential{Username: "oauth2", Token: t.AccessToken, RefreshToken: t.RefreshToken, Expires: t.Expiry}
}

// refresh redeems a refresh token. Hosts accept a refresh token once.
func (f *oauthForge) refresh(ctx context.Context, c Credential) (Credential, error) {
	token, err := f.exchange(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return f.oauth.TokenSource(ctx, &oauth2.Token{RefreshToken: c.RefreshToken, Expiry: time.Unix(1, 0)}).Token()
	})
	if err != nil {
		return Credential{}, err
	}
	return oauthCredential(token), nil
}

// credential returns c, which Sources.fresh has refreshed.
func (f *oauthForge) credential(_ context.Context, _ *assay.Installation, _ *assay.Repository, c Credential, _ permissions) (Credential, error) {
	if c.Token == "" {
		return c, f.trouble("needs a credential; connect it again")
	}
	return c, nil
}

// event implements forge.
func (f *oauthForge) event(header http.Header, body []byte) (*Event, error) {
	var e struct {
		pushEvent
		ObjectKind string          `json:"object_kind"` // of GitLab's webhooks
		EventName  string          `json:"event_name"`  // of GitLab's system hooks
		Project    oauthRepository `json:"project"`
		Repository oauthRepository `json:"repository"`
	}
	if json.Unmarshal(body, &e) != nil {
		return nil, errEvent
	}
	switch {
	case f.kind == KindGitLab && (e.ObjectKind == "push" || e.EventName == "push"):
		return e.push(e.Project.GitLabName, e.Project.Branch), nil
	case f.kind == KindGitea && header.Get("X-Gitea-Event") == "push":
		return e.push(e.Repository.GiteaName, e.Repository.Branch), nil
	}
	return &Event{}, nil
}

// Times of refreshing tokens.
const (
	refreshEarly = 5 * time.Minute  // before a token expires, so that a clone ends in time
	refreshClaim = 30 * time.Second // another process may refresh after it
	refreshPoll  = time.Second
)

// fresh returns the credential of an installation with a token that does not expire soon. Only one process refreshes
// it, because a host may revoke all tokens if a refresh token is used twice: it first records a claim in the stored
// credential.
func (s *Sources) fresh(ctx context.Context, i *assay.Installation, f *oauthForge) (Credential, error) {
	for {
		c, err := s.Open(i)
		now := s.now()
		if err != nil || c.Expires.IsZero() || c.RefreshToken == "" || now.Add(refreshEarly).Before(c.Expires) {
			return c, err
		}
		if busy := now.Sub(c.Refreshing); busy < 0 || busy >= refreshClaim {
			done, fresh, err := s.refresh(ctx, i, c, f)
			if err != nil || done {
				return fresh, err
			}
		} else {
			select {
			case <-ctx.Done():
				return c, ctx.Err()
			case <-time.After(refreshPoll):
			}
		}
		if i, err = s.reread(ctx, i); err != nil {
			return c, err
		}
	}
}

// refresh refreshes a credential and stores it. It returns done=false if another process is refreshing the credential.
func (s *Sources) refresh(ctx context.Context, i *assay.Installation, c Credential, f *oauthForge) (done bool, fresh Credential, err error) {
	claim := c
	claim.Refreshing = s.now()
	claimed, err := s.Seal(i.ID, claim)
	if err != nil {
		return false, c, err
	}
	if ok, err := s.store.ReplaceCredential(ctx, i.OrganizationID, i.ID, i.Credential, claimed); err != nil || !ok {
		return false, c, err
	}
	// Store the new token even if the run is canceled, since the host has revoked the old one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshClaim/2)
	defer cancel()
	next, err := f.refresh(ctx, c)
	stored := i.Credential
	if err == nil {
		if stored, err = s.Seal(i.ID, next); err != nil {
			return false, c, err
		}
	}
	if _, failed := s.store.ReplaceCredential(ctx, i.OrganizationID, i.ID, claimed, stored); err == nil {
		err = failed
	}
	return err == nil, next, err
}

func (s *Sources) reread(ctx context.Context, i *assay.Installation) (*assay.Installation, error) {
	all, err := s.store.Installations(ctx, i.OrganizationID)
	for _, found := range all {
		if found.ID == i.ID {
			return found, nil
		}
	}
	if err == nil {
		err = assay.Errorf(assay.CodeNotFound, "the installation was deleted meanwhile")
	}
	return nil, err
}
