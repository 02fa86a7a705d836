// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"

	"assay"
	"assay/internal/lists"
)

// github is the kind github: a GitHub App. Its installations need no stored credential, since the key of the App mints
// a token for each repository.
type github struct {
	*forgeHost
	signer jose.Signer

	mu     sync.Mutex
	owners map[ownership]ownerCheck
}

// ownership is the claim that a user owns the organization of an installation.
type ownership struct {
	installation string // id at GitHub
	user         int64
}

// ownerCheck is the last response of GitHub about an ownership.
type ownerCheck struct {
	at   time.Time
	lost bool
}

const (
	githubURL     = "https://github.com"
	githubAPI     = "https://api.github.com"
	appTokenLife  = 5 * time.Minute  // GitHub allows ten
	appTokenSkew  = 30 * time.Second // tolerance for the clock of GitHub
	ownerInterval = 10 * time.Minute // between checks of an ownership
	maxOwners     = 10_000           // cached checks
)

// githubID is the id of an installation.
var githubID = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// appName is the name of an App in URLs.
var appName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}$`)

func newGitHub(cfg ForgeConfig, g *git) (*github, error) {
	if !appName.MatchString(cfg.App) {
		return nil, errors.New("the name of the GitHub App must be the name in its URL, such as assay-acme")
	}
	h, err := newForgeHost(KindGitHub, cfg, "/api/v3", g)
	if err != nil {
		return nil, err
	}
	if h.base == githubURL {
		h.api = githubAPI
	}
	h.oauth.Endpoint.TokenURL = h.base + "/login/oauth/access_token"
	key, err := parseRSA(cfg.PrivateKey)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, err
	}
	return &github{forgeHost: h, signer: signer, owners: make(map[ownership]ownerCheck)}, nil
}

func parseRSA(text []byte) (*rsa.PrivateKey, error) {
	bad := errors.New("the private key of the GitHub App is not an RSA key in PEM")
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, bad
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if key, ok := parsed.(*rsa.PrivateKey); ok {
			return key, nil
		}
	}
	return nil, bad
}

func (g *github) host() *forgeHost { return g.forgeHost }

// authorizeURL returns the page on which the App is installed. GitHub sends the browser to the App's callback URL.
func (g *github) authorizeURL(state, _, _ string, _ bool) string {
	return g.base + "/apps/" + g.cfg.App + "/installations/new?" + url.Values{"state": {state}}.Encode()
}

// permissions are the access levels of a GitHub token by permission. Tokens of other hosts have the scopes that the
// user granted.
type permissions map[string]string

// Permissions for a repository.
var (
	toRead    = permissions{"contents": "read"}
	toPublish = permissions{"contents": "write", "pull_requests": "write"}
	toFollow  = permissions{"pull_requests": "read"}
)

type (
	githubAccount struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
		Type  string `json:"type"`
	}
	githubInstallation struct {
		ID          int64         `json:"id"`
		Account     githubAccount `json:"account"`
		SuspendedAt *string       `json:"suspended_at"`
	}
	githubRepository struct {
		FullName string `json:"full_name"`
		Branch   string `json:"default_branch"`
	}
)

// connect returns an installation if the user owns its account: the account is the user, or an organization that the
// user administers. The id in the URL of the browser proves nothing, and GitHub also lists installations for users that
// can read only one of their repositories.
func (g *github) connect(ctx context.Context, grant Grant, _ string) (*Connection, error) {
	if !githubID.MatchString(grant.InstallationID) {
		return nil, assay.Errorf(assay.CodeUnprocessable, "GitHub named no installation; install the App, or save its configuration once more")
	}
	token, err := g.exchange(ctx, func(ctx context.Context) (*oauth2.Token, error) { return g.oauth.Exchange(ctx, grant.Code) })
	if err != nil {
		return nil, err
	}
	found, user, err := g.owned(ctx, token.AccessToken, grant.InstallationID)
	if err != nil {
		return nil, err
	}
	if found.SuspendedAt != nil {
		return nil, assay.Errorf(assay.CodeUnprocessable, "the installation of the App is suspended")
	}
	c := &Connection{Provider: KindGitHub, ExternalID: grant.InstallationID, Account: g.account(found.Account.Login)}
	if found.Account.Type == "Organization" {
		c.OwnerID = user
		g.recordOwner(ownership{grant.InstallationID, user}, false)
	}
	minted, err := g.mint(ctx, grant.InstallationID, nil, permissions{"metadata": "read"})
	if err != nil {
		return nil, err
	}
	type list struct {
		Repositories items[githubRepository] `json:"repositories"`
	}
	err = g.pages(ctx, "/installation/repositories?per_page=100", minted, 100, func() any { return new(list) }, func(a any) int {
		all := a.(*list).Repositories
		for _, r := range all {
			if known, ok := g.repository(r.FullName, r.Branch); ok {
				c.Repositories = append(c.Repositories, known)
			}
		}
		return len(all)
	})
	return c, err
}

// owned returns the installation with an id if the user of a token owns it, and the id of the user.
func (g *github) owned(ctx context.Context, token, id string) (*githubInstallation, int64, error) {
	var user githubAccount
	if err := g.call(ctx, http.MethodGet, "/user", token, nil, &user); err != nil {
		return nil, 0, err
	}
	type list struct {
		Installations items[githubInstallation] `json:"installations"`
	}
	var found *githubInstallation
	err := g.pages(ctx, "/user/installations?per_page=100", token, 100, func() any { return new(list) }, func(a any) int {
		all := a.(*list).Installations
		for _, i := range all {
			if strconv.FormatInt(i.ID, 10) == id {
				found = &i
				return 0
			}
		}
		return len(all)
	})
	if err != nil {
		return nil, 0, err
	}
	notOwner := assay.Errorf(assay.CodeForbidden, "only the owner of the account, or an owner of the organization, can connect this installation")
	if found == nil || user.ID == 0 {
		return nil, 0, notOwner
	}
	switch account := found.Account; { // an enterprise has an id of its own kind
	case account.Type == "User" && account.ID == user.ID:
		return found, user.ID, nil
	case account.Type != "Organization":
		return nil, 0, notOwner
	}
	var membership struct {
		State        string        `json:"state"`
		Role         string        `json:"role"`
		Organization githubAccount `json:"organization"`
	}
	err = g.call(ctx, http.MethodGet, "/user/memberships/orgs/"+url.PathEscape(found.Account.Login), token, nil, &membership)
	if err != nil {
		return nil, 0, err
	}
	if membership.State != "active" || membership.Role != "admin" || membership.Organization.ID != found.Account.ID {
		return nil, 0, notOwner
	}
	return found, user.ID, nil
}

// appToken returns a token of the App itself.
func (g *github) appToken() (string, error) {
	now := g.now()
	return jwt.Signed(g.signer).Claims(jwt.Claims{
		Issuer: g.cfg.ClientID, IssuedAt: jwt.NewNumericDate(now.Add(-appTokenSkew)), Expiry: jwt.NewNumericDate(now.Add(appTokenLife)),
	}).Serialize()
}

// mint returns a token with permissions for an installation, or for one repository of it.
func (g *github) mint(ctx context.Context, installationID string, repository *assay.Repository, p permissions) (string, error) {
	if !githubID.MatchString(installationID) {
		return "", assay.Errorf(assay.CodeUnprocessable, "the installation has no id of GitHub; connect it again")
	}
	app, err := g.appToken()
	if err != nil {
		return "", err
	}
	body := map[string]any{"permissions": p}
	if repository != nil {
		body["repositories"] = []string{repository.FullName[strings.LastIndexByte(repository.FullName, '/')+1:]}
	}
	var minted struct {
		Token        string                  `json:"token"`
		Repositories items[githubRepository] `json:"repositories"` // the requested repositories
	}
	if err := g.call(ctx, http.MethodPost, "/app/installations/"+installationID+"/access_tokens", app, body, &minted); err != nil {
		return "", err
	}
	if minted.Token == "" || len(minted.Token) > maxToken {
		return "", g.trouble("sent no token")
	}
	// The request has the name of the repository without the account. If the account was renamed, the stored URL may
	// belong to a repository of another account.
	if repository != nil && len(minted.Repositories) > 0 && !slices.ContainsFunc(minted.Repositories, func(r githubRepository) bool {
		return strings.EqualFold(r.FullName, repository.FullName)
	}) {
		return "", g.trouble("has another name for the account of the repository now; connect it again")
	}
	return minted.Token, nil
}

// credential mints a token for one repository. The token is not stored.
func (g *github) credential(ctx context.Context, i *assay.Installation, r *assay.Repository, _ Credential, p permissions) (Credential, error) {
	if err := g.checkOwner(ctx, i); err != nil {
		return Credential{}, err
	}
	token, err := g.mint(ctx, i.ExternalID, r, p)
	return Credential{Username: "x-access-token", Token: token}, err
}

// checkOwner returns an error if the user that connected the installation of an organization no longer owns it.
func (g *github) checkOwner(ctx context.Context, i *assay.Installation) error {
	lost, err := g.lostOwner(ctx, i)
	if err == nil && lost {
		err = assay.Errorf(assay.CodeUnprocessable, "the user who connected this installation no longer owns the organization at GitHub; an owner has to connect it again")
	}
	return err
}

// lostOwner reports whether the user that connected an organization no longer owns it. If GitHub does not respond, it
// returns the previous result, or false if there is none. It returns an error only if ctx ends.
func (g *github) lostOwner(ctx context.Context, i *assay.Installation) (bool, error) {
	if i.OwnerID == 0 {
		return false, nil
	}
	o := ownership{i.ExternalID, i.OwnerID}
	g.mu.Lock()
	last, known := g.owners[o]
	g.mu.Unlock()
	if !known || g.now().Sub(last.at) >= ownerInterval {
		lost, err := g.lost(ctx, o)
		switch {
		case ctx.Err() != nil:
			return last.lost, ctx.Err()
		case err == nil:
			last.lost = lost
		}
		g.recordOwner(o, last.lost)
	}
	return last.lost, nil
}

// recordOwner caches the response of GitHub about an ownership.
func (g *github) recordOwner(o ownership, lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.owners) >= maxOwners {
		clear(g.owners)
	}
	g.owners[o] = ownerCheck{g.now(), lost}
}

// lost requests the owners of the organization of an installation, and reports whether the user is not among them. It
// returns an error if GitHub sends no such list. It uses the current name of the organization, since another
// organization may have its old name.
func (g *github) lost(ctx context.Context, o ownership) (bool, error) {
	token, err := g.mint(ctx, o.installation, nil, permissions{"members": "read"})
	if err != nil {
		return false, err
	}
	app, err := g.appToken()
	if err != nil {
		return false, err
	}
	var installed githubInstallation
	if err := g.call(ctx, http.MethodGet, "/app/installations/"+o.installation, app, nil, &installed); err != nil {
		return false, err
	}
	if installed.Account.Type != "Organization" || installed.Account.Login == "" {
		return false, g.trouble("named no organization of the installation")
	}
	n, owns, undocumented := 0, false, false
	err = g.pages(ctx, "/orgs/"+url.PathEscape(installed.Account.Login)+"/members?role=admin&per_page=100", token, 100, func() any { return new(items[githubAccount]) }, func(a any) int {
		all := *a.(*items[githubAccount])
		n += len(all)
		owns = owns || slices.ContainsFunc(all, func(u githubAccount) bool { return u.ID == o.user })
		undocumented = undocumented || slices.ContainsFunc(all, func(u githubAccount) bool { return u.ID == 0 })
		if owns {
			return 0
		}
		return len(all)
	})
	if err == nil && !owns && (n == 0 || undocumented) {
		err = g.trouble("sent no list of owners")
	}
	return err == nil && !owns, err
}

// event implements forge.
func (g *github) event(header http.Header, body []byte) (*Event, error) {
	var e struct {
		pushEvent
		Action       string             `json:"action"`
		Installation githubInstallation `json:"installation"`
		Repository   githubRepository   `json:"repository"`
		Added        []githubRepository `json:"repositories_added"`
		Removed      []githubRepository `json:"repositories_removed"`
	}
	if json.Unmarshal(body, &e) != nil {
		return nil, errEvent
	}
	id := strconv.FormatInt(e.Installation.ID, 10)
	switch kind := header.Get("X-GitHub-Event"); {
	case kind == "push":
		return e.push(e.Repository.FullName, e.Repository.Branch), nil
	case kind == "installation" && e.Action == "deleted":
		return &Event{Kind: EventDeleted, InstallationID: id}, nil
	case kind == "installation" && e.Action == "suspend":
		return &Event{Kind: EventSuspended, InstallationID: id}, nil
	case kind == "installation" && e.Action == "unsuspend":
		return &Event{Kind: EventRestored, InstallationID: id}, nil
	case kind == "installation_repositories":
		return &Event{Kind: EventRepositories, InstallationID: id, Added: names(e.Added), Removed: names(e.Removed)}, nil
	}
	return &Event{}, nil
}

func names(repositories []githubRepository) []string {
	return lists.Map(repositories, func(r githubRepository) string { return r.FullName })
}
