// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"assay"
	"assay/internal/auth"
	"assay/internal/lists"
	"assay/internal/safetext"
	"assay/internal/tlsreload"
)

// Kinds of sources whose hosts have an API.
const (
	KindGitHub = "github" // a GitHub App
	KindGitLab = "gitlab" // an OAuth application
	KindGitea  = "gitea"  // an OAuth application of Gitea or Forgejo
)

// ForgeConfig configures a source host with an API. The host is disabled if ClientID is empty.
type ForgeConfig struct {
	URL           string // of the web pages: https, with a path if the host has one
	ClientID      string
	ClientSecret  auth.Secret
	WebhookSecret auth.Secret // "" rejects webhooks
	App           string      // of KindGitHub: name of the App in URLs
	PrivateKey    []byte      // of KindGitHub: PEM
}

// Grant is the result of an authorization at a source host.
type Grant struct {
	Organization   string // id of the organization that requested it
	Code           string
	Verifier       string // of PKCE
	InstallationID string // of KindGitHub: from the browser
	// Take, unless nil, is called before the code is redeemed. It is not called if too many sources are being
	// connected. Authorize returns its error.
	Take func(context.Context) error
}

// forge is a kind of source whose host has an API. It is safe for concurrent use.
type forge interface {
	// host returns the state that all kinds of forges have in common.
	host() *forgeHost
	// authorizeURL returns the page of the host on which a user authorizes read access, or write access if write is
	// set.
	authorizeURL(state, verifier, callback string, write bool) string
	// connect redeems a grant and returns the repositories that its user may connect.
	connect(ctx context.Context, g Grant, callback string) (*Connection, error)
	// credential returns the credential of git and the API for a repository with permissions.
	credential(ctx context.Context, i *assay.Installation, r *assay.Repository, c Credential, p permissions) (Credential, error)
	// event returns the event of a webhook with a valid signature.
	event(header http.Header, body []byte) (*Event, error)
}

// Limits of requests to source hosts.
const (
	apiTimeout = 15 * time.Second // of a request
	maxAnswer  = 4 << 20          // bytes
	maxPages   = 20               // pages of a list
	maxItems   = 500              // items of a list in an answer; hosts send at most 100 on a page
	maxGrant   = 64 << 10         // bytes of the answer with a token
)

// forgeHost is a source host and the client of its API. Requests use TLS and no proxy, follow no redirects, and connect
// only to checked addresses.
type forgeHost struct {
	kind   string
	cfg    ForgeConfig
	base   string // URL without a trailing slash
	api    string // URL of the API without a trailing slash
	oauth  oauth2.Config
	client *http.Client
	now    func() time.Time
}

func newForgeHost(kind string, cfg ForgeConfig, api string, g *git) (*forgeHost, error) {
	base := strings.TrimRight(cfg.URL, "/")
	r, err := parseRemote(base + "/owner/name")
	if err != nil || r.scheme != "https" || r.String() != base+"/owner/name" {
		return nil, fmt.Errorf("the URL of %s must be an https URL in lower case without query", kind)
	}
	roots, err := tlsreload.ReadRoots(g.cfg.CAFile)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Timeout:       apiTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            g.dial,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    apiTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
			DisableKeepAlives:      true, // requests are rare
		},
	}
	h := &forgeHost{kind: kind, cfg: cfg, base: base, api: base + api, client: client, now: g.cfg.Now}
	h.oauth = oauth2.Config{ClientID: cfg.ClientID, ClientSecret: string(cfg.ClientSecret)}
	h.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	return h, nil
}

// dial connects to one of the checked addresses of a host.
func (g *git) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: apiTimeout / 3}
	var failed error
	for _, a := range addresses {
		c, err := dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, nil
		}
		failed = err
	}
	return nil, failed
}

// call calls the API and decodes its answer. Errors have a code and a message without text of the host.
func (h *forgeHost) call(ctx context.Context, method, path, token string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = strings.NewReader(string(text))
	}
	req, err := http.NewRequestWithContext(ctx, method, h.api+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "assay")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return h.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return h.refused(resp.StatusCode, resp.Header)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return h.unreachable(ctx, err)
	case len(text) > maxAnswer:
		return h.trouble("sent too much")
	case json.Unmarshal(text, answer) != nil:
		return h.trouble("sent an answer that is not as documented")
	}
	return nil
}

// items is a list in an answer. Decoding fails after maxItems, since a decoded item can take a hundred times the memory
// of its JSON.
type items[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *items[T]) UnmarshalJSON(text []byte) error {
	*l = nil
	if string(text) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return errors.New("not a list")
	}
	for d.More() {
		if len(*l) == maxItems {
			return errors.New("too many items")
		}
		var item T
		if err := d.Decode(&item); err != nil {
			return err
		}
		*l = append(*l, item)
	}
	return nil
}

func (h *forgeHost) trouble(text string) error {
	return assay.Errorf(assay.CodeUnprocessable, "the source host (%s) %s", h.kind, text)
}

// unreachable returns the error for a request that got no answer.
func (h *forgeHost) unreachable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errPrivate):
		return h.trouble("cannot be used: " + errPrivate.Error())
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return h.trouble("has an invalid certificate")
	}
	return h.trouble("does not answer")
}

// refused returns the error for a status code other than 2xx.
func (h *forgeHost) refused(status int, header http.Header) error {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && (header.Get("Retry-After") != "" || header.Get("X-RateLimit-Remaining") == "0"):
		return h.trouble("limits requests now; try again later")
	case status == http.StatusUnauthorized:
		return h.trouble("rejected the credential; connect it again")
	case status == http.StatusForbidden:
		return h.trouble("denies access; the application may need a permission")
	case status == http.StatusNotFound:
		return h.trouble("does not know the installation or repository")
	case status >= 300 && status < 400:
		return h.trouble("redirects; configure the URL that it redirects to")
	}
	return h.trouble("answered with status " + strconv.Itoa(status))
}

// pages reads a list page by page. answer returns the value to decode a page into, and add processes it and returns the
// number of its items. A page with fewer than size items is the last one.
func (h *forgeHost) pages(ctx context.Context, path, token string, size int, answer func() any, add func(answer any) (items int)) error {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for page := 1; page <= maxPages; page++ {
		a := answer()
		if err := h.call(ctx, http.MethodGet, path+separator+"page="+strconv.Itoa(page), token, nil, a); err != nil {
			return err
		}
		if add(a) < size {
			return nil
		}
	}
	return h.trouble("has more than " + strconv.Itoa(maxPages*size) + " entries in a list")
}

// shortAnswers truncates answers after maxGrant bytes, since package oauth2 decodes all values of an answer.
type shortAnswers struct{ http.RoundTripper }

func (t shortAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxGrant), resp.Body}
	}
	return resp, err
}

// exchange calls redeem, which redeems a code or a refresh token, and converts its errors.
func (h *forgeHost) exchange(ctx context.Context, redeem func(ctx context.Context) (*oauth2.Token, error)) (*oauth2.Token, error) {
	client := *h.client
	client.Transport = shortAnswers{h.client.Transport}
	token, err := redeem(context.WithValue(ctx, oauth2.HTTPClient, &client))
	if err == nil && (len(token.AccessToken) > maxToken || len(token.RefreshToken) > maxToken) {
		return nil, h.trouble("sent a token that is too long")
	}
	if err == nil {
		return token, nil
	}
	if failed, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if failed.Response != nil && failed.Response.StatusCode == http.StatusTooManyRequests || failed.Response != nil && failed.Response.StatusCode >= 500 {
			return nil, h.refused(failed.Response.StatusCode, failed.Response.Header)
		}
		return nil, errRejected(h)
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return nil, h.unreachable(ctx, err)
	}
	return nil, errRejected(h)
}

// errRejected is the error for a grant or refresh token that the host does not accept.
func errRejected(h *forgeHost) error {
	return h.trouble("rejected the authorization; connect it again")
}

// repository returns the repository with a full name. Its clone URL is built from checked parts, so that a host cannot
// choose where credentials are sent.
func (h *forgeHost) repository(fullName, branch string) (*assay.Repository, bool) {
	r, err := parseRemote(h.base + "/" + fullName + ".git")
	if err != nil || r.String() != h.base+"/"+fullName+".git" || !strings.Contains(fullName, "/") {
		return nil, false
	}
	if !branchName.MatchString(branch) {
		branch = ""
	}
	return &assay.Repository{FullName: fullName, URL: r.String(), DefaultBranch: branch, Access: assay.AccessGranted}, true
}

// account returns the display name of an account: the host and the login.
func (h *forgeHost) account(login string) string {
	return safetext.Cut(safetext.Printable(strings.TrimPrefix(h.base, "https://")+"/"+login, ""), 250)
}

// Forges returns the configured kinds of hosts with an API.
func (s *Sources) Forges() []string {
	return lists.Filter([]string{KindGitHub, KindGitLab, KindGitea}, func(kind string) bool { return s.forges[kind] != nil })
}

// AuthorizeURL returns the page of a configured host on which a user authorizes access. The host then redirects the
// browser to the callback with the state. If write is set, the access includes branches and pull requests. For GitHub,
// write has no effect: the App determines the permissions.
func (s *Sources) AuthorizeURL(kind, state, verifier, callback string, write bool) (string, error) {
	f := s.forges[kind]
	if f == nil {
		return "", errNotConfigured(kind)
	}
	if kind != KindGitHub && !s.box.Encrypts() {
		return "", assay.Errorf(assay.CodeUnprocessable, "tokens cannot be stored, because the server has no --secret-key-file to encrypt them with")
	}
	return f.authorizeURL(state, verifier, callback, write), nil
}

func errNotConfigured(kind string) error {
	return assay.Errorf(assay.CodeUnprocessable, "this server is not configured for repositories of %s", safetext.Cut(safetext.Printable(kind, ""), 32))
}

// Authorize redeems a grant and returns the repositories that its user may connect.
func (s *Sources) Authorize(ctx context.Context, kind string, g Grant, callback string) (*Connection, error) {
	f := s.forges[kind]
	if f == nil {
		return nil, errNotConfigured(kind)
	}
	slow := f.host().trouble("did not answer in time")
	return s.try(ctx, g.Organization, slow, func(ctx context.Context) (*Connection, error) {
		if g.Take != nil {
			if err := g.Take(ctx); err != nil {
				return nil, err
			}
		}
		return f.connect(ctx, g, callback)
	})
}

// Named returns the repository with a full name at a configured host, without a request to the host.
func (s *Sources) Named(kind, fullName string) (*assay.Repository, bool) {
	f := s.forges[kind]
	if f == nil {
		return nil, false
	}
	return f.host().repository(fullName, "")
}

// Lost reports whether an installation cannot be used because the user that connected it is no longer an owner of its
// account. An owner has to connect it again. If the host does not respond before ctx ends, its last response is used.
func (s *Sources) Lost(ctx context.Context, i *assay.Installation) bool {
	g, ok := s.forges[i.Provider].(*github)
	if !ok {
		return false
	}
	lost, _ := g.lostOwner(ctx, i) // the only error is that of ctx
	return lost
}
