// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"assay"
)

const (
	testCode     = "code-1"
	testVerifier = "verifier-0123456789-0123456789-0123456789-0123456789"
	testCallback = "https://assay.example.com/api/v1/agent/onboarding/callback/"
	userToken    = "user-token"
)

var testKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// testForge is a fake source host with the documented APIs of GitHub, GitLab and Gitea, and a git server.
type testForge struct {
	*gitServer
	t   *testing.T
	now func() time.Time

	mu      sync.Mutex
	calls   []string
	answers map[string]string // replace the default answers, by method and path; "403 {header}" is a status
	refresh int               // number of refreshed tokens
	minted  []string          // bodies of requests for tokens
}

func newTestForge(t *testing.T) *testForge {
	f := &testForge{gitServer: newGitServer(t), t: t, now: time.Now, answers: map[string]string{}}
	f.api = f.serve
	newRepository(t, filepath.Join(f.Root, "acme", "shop.git"), map[string]string{"main.go": "package main\n"})
	return f
}

// sources returns sources with all three kinds at the forge.
func (f *testForge) sources(change func(*Config)) *Sources {
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(testKey())})
	return newSources(f.t, func(c *Config) {
		c.CAFile = f.CA
		one := ForgeConfig{URL: strings.TrimSuffix(f.url(""), "/"), ClientID: "client", ClientSecret: "client-secret", WebhookSecret: "hook-secret"}
		github := one
		github.App, github.PrivateKey = "assay-acme", key
		c.Forges = map[string]ForgeConfig{KindGitHub: github, KindGitLab: one, KindGitea: one}
		if change != nil {
			change(c)
		}
	})
}

func (f *testForge) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	f.calls = append(f.calls, call+"?"+r.URL.RawQuery)
	answer, ok := f.answers[call]
	if status, rest, found := strings.Cut(answer, " "); found && len(status) == 3 {
		n, err := strconv.Atoi(status)
		if err == nil {
			if name, value, ok := strings.Cut(rest, ":"); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(n)
			fmt.Fprint(w, `{"message":"secret of the host"}`)
			return
		}
	}
	if !ok {
		answer, ok = f.usual(r)
	}
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, answer)
}

// usual answers like a host with the organization acme, which is owned by mona, the user with id 7.
func (f *testForge) usual(r *http.Request) (string, bool) {
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	switch r.Method + " " + r.URL.Path {
	case "POST /login/oauth/access_token", "POST /oauth/token":
		return f.token(r)
	case "POST /api/v3/app/installations/42/access_tokens":
		body, _ := io.ReadAll(r.Body)
		f.minted = append(f.minted, string(body))
		return `{"token":"` + testToken + `","expires_at":"2026-11-21T10:30:00Z","permissions":{"contents":"read"},"repositories":[{"full_name":"Acme/shop"}]}`, ofApp(bearer)
	case "GET /api/v3/app/installations/42":
		return `{"id":42,"account":{"login":"acme","id":9,"type":"Organization"},"suspended_at":null}`, ofApp(bearer)
	case "GET /api/v3/installation/repositories":
		return `{"total_count":101,"repositories":` + f.list(page, 100, "full_name") + `}`, bearer == testToken
	case "GET /api/v3/user":
		return `{"login":"mona","id":7,"type":"User"}`, bearer == userToken
	case "GET /api/v3/user/installations":
		return `{"total_count":2,"installations":[
			{"id":41,"account":{"login":"mona","id":7,"type":"User"},"suspended_at":null},
			{"id":42,"account":{"login":"acme","id":9,"type":"Organization"},"suspended_at":null},
			{"id":43,"account":{"login":"victim","id":8,"type":"User"},"suspended_at":null},
			{"id":45,"account":{"login":"mona","id":7,"type":"Enterprise"},"suspended_at":null},
			{"id":44,"account":{"login":"large","id":10,"type":"Organization"},"suspended_at":null}]}`, bearer == userToken
	case "GET /api/v3/user/memberships/orgs/acme":
		return `{"state":"active","role":"admin","organization":{"login":"acme","id":9},"user":{"login":"mona","id":7}}`, bearer == userToken
	case "GET /api/v3/user/memberships/orgs/large":
		return `{"state":"active","role":"member","organization":{"login":"large","id":10},"user":{"login":"mona","id":7}}`, bearer == userToken
	case "GET /api/v4/user":
		return `{"id":7,"username":"mona","name":"Mona"}`, bearer == testToken
	case "GET /api/v4/projects":
		return f.list(page, 100, "path_with_namespace"), bearer == testToken
	case "GET /api/v1/user":
		return `{"id":7,"login":"mona","email":"m@example.com"}`, bearer == testToken
	case "GET /api/v1/user/repos":
		return f.list(page, 50, "full_name"), bearer == testToken
	}
	return "", false
}

// ofApp reports whether a token is one of the App itself.
func ofApp(text string) bool {
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return false
	}
	var claims jwt.Claims
	return token.Claims(&testKey().PublicKey, &claims) == nil && claims.Issuer == "client" && claims.Expiry.Time().Sub(claims.IssuedAt.Time()) <= 10*time.Minute
}

// list returns a page of a list with one repository more than fits on a page.
func (f *testForge) list(page, size int, name string) string {
	var all []map[string]any
	for n := (page - 1) * size; n < min(page*size, size+1); n++ {
		full := "acme/repo-" + strconv.Itoa(n)
		if n == 0 {
			full = "acme/shop"
		}
		all = append(all, map[string]any{"id": n + 1, name: full, "default_branch": "main", "clone_url": "https://attacker.example.com/x.git"})
	}
	text, err := json.Marshal(all)
	if err != nil {
		f.t.Error(err)
	}
	return string(text)
}

// token answers a request for a token. Only the last refresh token is valid, and only once.
func (f *testForge) token(r *http.Request) (string, bool) {
	if r.ParseForm() != nil || r.PostForm.Get("client_id") != "client" || r.PostForm.Get("client_secret") != "client-secret" {
		return "", false
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		if r.PostForm.Get("code") != testCode {
			return "", false
		}
		if r.PostForm.Get("redirect_uri") == "" { // of a GitHub App
			return `{"access_token":"` + userToken + `","token_type":"bearer","scope":""}`, true
		}
		if r.PostForm.Get("code_verifier") != testVerifier {
			return "", false
		}
	case "refresh_token":
		if r.PostForm.Get("refresh_token") != "refresh-"+strconv.Itoa(f.refresh) {
			return "", false
		}
		f.refresh++
	default:
		return "", false
	}
	return fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":7200,"refresh_token":"refresh-%d","created_at":1}`, testToken, f.refresh), true
}

func (f *testForge) set(call, answer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[call] = answer
}

func grant(installation string) Grant {
	return Grant{Code: testCode, Verifier: testVerifier, InstallationID: installation}
}

func TestForges(t *testing.T) {
	f := newTestForge(t)
	s := f.sources(nil)
	require.Equal(t, []string{KindGitHub, KindGitLab, KindGitea}, s.Forges())
	host := strings.TrimPrefix(f.url(""), "https://")
	for kind, want := range map[string]struct {
		page, external, account string
		repositories            int
	}{
		KindGitHub: {"/apps/assay-acme/installations/new", "42", host + "acme", 101},
		KindGitLab: {"/oauth/authorize", "7", host + "mona", 101},
		KindGitea:  {"/login/oauth/authorize", "7", host + "mona", 51},
	} {
		page, err := s.AuthorizeURL(kind, "state-1", testVerifier, testCallback+kind, false)
		require.NoError(t, err)
		u, err := url.Parse(page)
		require.NoError(t, err)
		require.Equal(t, want.page, u.Path)
		require.Equal(t, "state-1", u.Query().Get("state"))
		if kind != KindGitHub {
			require.Equal(t, testCallback+kind, u.Query().Get("redirect_uri"))
			require.Equal(t, "S256", u.Query().Get("code_challenge_method"))
			require.NotContains(t, page, testVerifier)
		}
		require.NotContains(t, page, "client-secret")

		c, err := s.Authorize(t.Context(), kind, grant("42"), testCallback+kind)
		require.NoError(t, err, kind)
		require.Equal(t, kind, c.Provider)
		require.Equal(t, want.external, c.ExternalID)
		require.Equal(t, want.account, c.Account)
		require.Len(t, c.Repositories, want.repositories)
		require.Equal(t, &assay.Repository{FullName: "acme/shop", URL: f.url("acme/shop.git"), DefaultBranch: "main", Access: "granted"}, c.Repositories[0],
			"with a URL of the configured host")

		i := &assay.Installation{ID: "i", Provider: kind, ExternalID: c.ExternalID, Status: "active"}
		i.Credential, err = s.Seal(i.ID, c.Credential)
		require.NoError(t, err)
		require.Equal(t, kind == KindGitHub, i.Credential == nil, "tokens of GitHub are not stored")
		got, err := s.Checkout(t.Context(), i, c.Repositories[0], Want{}, t.TempDir())
		require.NoError(t, err, kind)
		require.Equal(t, "main", got.DefaultBranch)

		_, err = s.Authorize(t.Context(), kind, Grant{Code: "another", Verifier: testVerifier, InstallationID: "42"}, testCallback+kind)
		require.ErrorContains(t, err, "rejected the authorization")
	}
	f.mu.Lock()
	require.JSONEq(t, `{"repositories":["shop"],"permissions":{"contents":"read"}}`, f.minted[len(f.minted)-1], "a token for one repository")
	f.mu.Unlock()

	other := assay.Repository{FullName: "acme/shop", URL: "https://elsewhere.example.com/acme/shop.git"}
	_, err := s.Checkout(t.Context(), &assay.Installation{Provider: KindGitHub, ExternalID: "42"}, &other, Want{}, t.TempDir())
	require.ErrorContains(t, err, "another host", "credentials go nowhere else")
	known, ok := s.Named(KindGitHub, "acme/shop")
	require.True(t, ok)
	_, err = s.Checkout(t.Context(), &assay.Installation{Provider: KindGitHub, ExternalID: "42", Status: assay.InstallationSuspended}, known, Want{}, t.TempDir())
	require.ErrorContains(t, err, "suspended")
	f.mu.Lock()
	f.answers["POST /api/v3/app/installations/42/access_tokens"] = `{"token":"` + testToken + `","repositories":[{"full_name":"acme-new/shop"}]}`
	f.mu.Unlock()
	_, err = s.Checkout(t.Context(), &assay.Installation{Provider: KindGitHub, ExternalID: "42"}, known, Want{}, t.TempDir())
	require.ErrorContains(t, err, "another name for the account", "another account may have the name acme now")
	for _, name := range []string{"", "..", "acme/../x", "acme/shop?x", "acme/sh op", "/acme", "acme/shop#", "a\\b", "acme/--x\n", strings.Repeat("a", 2000)} {
		_, ok := s.Named(KindGitHub, name)
		require.False(t, ok, "%q", name)
	}
}

// TestOwnership: a user cannot connect an installation that the user does not own.
func TestOwnership(t *testing.T) {
	f := newTestForge(t)
	s := f.sources(nil)
	for installation, code := range map[string]assay.Code{
		"45":       assay.CodeForbidden, // of an enterprise with the number of the user
		"43":       assay.CodeForbidden, // of another user, with a repository that this user can read
		"44":       assay.CodeForbidden, // of an organization in which the user is only a member
		"99":       assay.CodeForbidden, // not visible to the user
		"":         assay.CodeUnprocessable,
		"42/../43": assay.CodeUnprocessable, "-1": assay.CodeUnprocessable, "042": assay.CodeUnprocessable,
	} {
		_, err := s.Authorize(t.Context(), KindGitHub, grant(installation), "")
		require.Equal(t, code, assay.ErrorCode(err), "%q: %v", installation, err)
	}
	f.mu.Lock()
	require.Empty(t, f.minted, "and no token is minted")
	f.mu.Unlock()
	for _, membership := range []string{
		`{"state":"pending","role":"admin","organization":{"id":9}}`, `{"state":"active","role":"admin","organization":{"id":10}}`, `{}`, `{"state":1}`, `404 `, `403 `,
	} {
		f.set("GET /api/v3/user/memberships/orgs/acme", membership)
		_, err := s.Authorize(t.Context(), KindGitHub, grant("42"), "")
		require.Error(t, err, membership)
	}
	f.set("GET /api/v3/user/memberships/orgs/acme", `{"state":"active","role":"admin","organization":{"id":9}}`)
	_, err := s.Authorize(t.Context(), KindGitHub, grant("42"), "")
	require.NoError(t, err)
}

// TestLostOwnership: the user that connected an organization of GitHub is no longer an owner.
func TestLostOwnership(t *testing.T) {
	const (
		installation = "GET /api/v3/app/installations/42"
		mint         = "POST /api/v3/app/installations/42/access_tokens"
		mona         = `[{"login":"mona","id":7}]`
	)
	members := func(organization string) string { return "GET /api/v3/orgs/" + organization + "/members" }
	others := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"login":"other","id":%d}`, 100+i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for name, c := range map[string]struct {
		owner   int64
		account string // of the installation; "" for acme
		answer  string // members of acme
		renamed string // members of acme-new
		calls   int    // of members
		lost    bool
	}{
		"owner":             {7, "", `[{"login":"other","id":8},{"login":"mona","id":7}]`, "", 1, false},
		"lost":              {7, "", others(1), "", 1, true},
		"of its name":       {7, "", `[{"login":"mona","id":70}]`, "", 1, true},
		"not known":         {0, "", others(1), "", 0, false},
		"other server":      {7, "", "404 ", "", 1, false},
		"no permission":     {7, "", "403 ", "", 1, false},
		"trouble":           {7, "", "500 ", "", 1, false},
		"empty":             {7, "", "[]", "", 1, false},
		"null":              {7, "", "null", "", 1, false},
		"an object":         {7, "", `{"message":"x"}`, "", 1, false},
		"other shape":       {7, "", `[{"id":8},{"login":"x"}]`, "", 1, false},
		"endless":           {7, "", others(100), "", maxPages, false},
		"too many items":    {7, "", others(maxItems + 1), "", 1, false},
		"lost, renamed":     {7, `{"account":{"login":"acme-new","id":9,"type":"Organization"}}`, mona, others(1), 1, true},
		"owner, renamed":    {7, `{"account":{"login":"acme-new","id":9,"type":"Organization"}}`, others(1), mona, 1, false},
		"account, trouble":  {7, "500 ", others(1), "", 0, false},
		"account, a user":   {7, `{"account":{"login":"acme","id":9,"type":"User"}}`, others(1), "", 0, false},
		"account, unnamed":  {7, `{"account":{"id":9,"type":"Organization"}}`, others(1), "", 0, false},
		"account, none":     {7, `{"account":null}`, others(1), "", 0, false},
		"account, a string": {7, `{"account":"acme"}`, others(1), "", 0, false},
	} {
		f := newTestForge(t)
		var passed atomic.Int64 // nanoseconds
		s := f.sources(func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) } })
		made, err := s.Authorize(t.Context(), KindGitHub, grant("42"), "")
		require.NoError(t, err, name)
		require.EqualValues(t, 7, made.OwnerID)
		i := &assay.Installation{Provider: KindGitHub, ExternalID: "42", OwnerID: c.owner, Status: "active"}
		access := func() error {
			_, _, _, err := s.access(t.Context(), i, made.Repositories[0], toRead)
			return err
		}
		calls := func() (n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, call := range f.calls {
				if strings.HasPrefix(call, members("acme")+"?role=admin&per_page=100&page=") || strings.HasPrefix(call, members("acme-new")+"?role=admin&per_page=100&page=") {
					n++
				}
			}
			return n
		}
		f.set(members("acme"), c.answer)
		f.set(members("acme-new"), c.renamed)
		if c.account != "" {
			f.set(installation, c.account)
		}
		require.NoError(t, access(), name)
		require.Zero(t, calls(), "a user that has just connected owns the organization")
		for range 2 {
			passed.Store(int64(ownerInterval))
			require.Equal(t, c.lost, s.Lost(t.Context(), i), name)
			err = access()
			require.Equal(t, c.calls, calls(), "%s: once in an interval", name)
			if !c.lost {
				require.NoError(t, err, name)
				continue
			}
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), name)
			require.ErrorContains(t, err, "no longer owns the organization")
			f.mu.Lock()
			require.JSONEq(t, `{"permissions":{"members":"read"}}`, f.minted[len(f.minted)-1], "no token for the repository")
			f.mu.Unlock()
		}
		if !c.lost {
			continue
		}
		// If GitHub does not respond, the result stays the same. Then the user connects the installation again.
		passed.Store(int64(2 * ownerInterval))
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		require.True(t, s.Lost(cancelled, i), name)
		f.set(mint, "500 ")
		require.ErrorContains(t, access(), "no longer owns", name)
		f.mu.Lock()
		delete(f.answers, mint)
		f.mu.Unlock()
		require.ErrorContains(t, access(), "no longer owns", name)
		_, err = s.Authorize(t.Context(), KindGitHub, grant("42"), "")
		require.NoError(t, err, name)
		require.NoError(t, access(), name)
		// A canceled check has no result.
		passed.Store(int64(3 * ownerInterval))
		_, _, _, err = s.access(cancelled, i, made.Repositories[0], toRead)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, access(), "no longer owns", name)
	}
	// The account of a user has no owners to check.
	f := newTestForge(t)
	f.set("GET /api/v3/user/installations", `{"installations":[{"id":42,"account":{"login":"mona","id":7,"type":"User"}}]}`)
	made, err := f.sources(nil).Authorize(t.Context(), KindGitHub, grant("42"), "")
	require.NoError(t, err)
	require.Zero(t, made.OwnerID)
}

// TestItems: decoding the largest list in an answer takes memory for its bytes, and not for its items.
func TestItems(t *testing.T) {
	text := []byte(`{"repositories":[{}` + strings.Repeat(",{}", maxAnswer/3-10) + `]}`)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var list struct {
				Repositories items[pullAnswer] `json:"repositories"`
			}
			if json.Unmarshal(text, &list) == nil || len(list.Repositories) > maxItems {
				b.Fatal("no limit")
			}
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(4*maxAnswer))
}

// TestHostileForges: invalid answers of hosts are rejected.
func TestHostileForges(t *testing.T) {
	f := newTestForge(t)
	s := f.sources(nil)
	const repositories, token = "GET /api/v1/user/repos", "POST /login/oauth/access_token"
	full := `[` + strings.TrimSuffix(strings.Repeat(`{"full_name":"a/b"},`, 50), ",") + `]`
	for _, c := range []struct{ call, answer, want string }{
		{repositories, `429 Retry-After:60`, "limits requests"},
		{repositories, `403 X-RateLimit-Remaining:0`, "limits requests"},
		{repositories, `403 `, "denies access"},
		{repositories, `401 `, "rejected the credential"},
		{repositories, `302 Location:https://10.0.0.1/`, "redirects"},
		{repositories, `500 `, "status 500"},
		{repositories, `{"message":"x"}`, "not as documented"},
		{repositories, `[{"full_name":7}]`, "not as documented"},
		{repositories, `[` + strings.Repeat("[", 100_000), "not as documented"},
		{repositories, `["` + strings.Repeat("x", maxAnswer) + `"]`, "too much"},
		{repositories, full, "more than 1000 entries"},
		{repositories, `[{}` + strings.Repeat(",{}", maxItems) + `]`, "not as documented"},
		{repositories, `[{}, 7]`, "not as documented"},
		{repositories, `"x"`, "not as documented"},
		{"GET /api/v1/user", `{"id":0,"login":"x"}`, "not as documented"},
		{token, `{"access_token":"` + strings.Repeat("x", maxToken+1) + `"}`, "too long"},
		{token, `{"error":"bad_verification_code","error_description":"secret"}`, "rejected"},
		{token, `nothing`, "rejected"},
		{token, `{"x":[0` + strings.Repeat(",0", maxGrant/2) + `],"access_token":"` + testToken + `"}`, "rejected"},
		{token, `429 Retry-After:60`, "limits requests"},
	} {
		f.set(c.call, c.answer)
		_, err := s.Authorize(t.Context(), KindGitea, grant(""), testCallback)
		require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), "%.80s: %v", c.answer, err)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret")
		f.mu.Lock()
		delete(f.answers, c.call)
		f.mu.Unlock()
	}
	f.set(repositories, `null`)
	c, err := s.Authorize(t.Context(), KindGitea, grant(""), testCallback)
	require.NoError(t, err)
	require.Empty(t, c.Repositories)
	f.set(repositories, `[{"full_name":"../../x"},{"full_name":"ok/ok","default_branch":"--upload-pack=x y"},{"full_name":"a/b\u0000"},{"full_name":"a/empty","empty":true}]`)
	c, err = s.Authorize(t.Context(), KindGitea, grant(""), testCallback)
	require.NoError(t, err)
	require.Len(t, c.Repositories, 1)
	require.Equal(t, "ok/ok", c.Repositories[0].FullName)
	require.Empty(t, c.Repositories[0].DefaultBranch)

	private := f.sources(func(c *Config) { c.PrivateHosts = false })
	_, err = private.Authorize(t.Context(), KindGitea, grant(""), testCallback)
	require.ErrorContains(t, err, "private network")
	untrusted := f.sources(func(c *Config) { c.CAFile = "" })
	_, err = untrusted.Authorize(t.Context(), KindGitea, grant(""), testCallback)
	require.ErrorContains(t, err, "invalid certificate")
	sealless := f.sources(func(c *Config) { c.Secret = "" })
	_, err = sealless.AuthorizeURL(KindGitLab, "s", "v", testCallback, false)
	require.ErrorContains(t, err, "--secret-key-file")
	_, err = s.Authorize(t.Context(), "bitbucket", grant(""), "")
	require.ErrorContains(t, err, "not configured")
}

func TestForgeConfig(t *testing.T) {
	for name, c := range map[string]ForgeConfig{
		"http":    {ClientID: "c", URL: "http://git.example.com"},
		"no host": {ClientID: "c", URL: "https://"},
		"user":    {ClientID: "c", URL: "https://u:p4ss@git.example.com"},
		"query":   {ClientID: "c", URL: "https://git.example.com/?a=b"},
		"case":    {ClientID: "c", URL: "https://Git.example.com"},
	} {
		_, err := New(Config{Forges: map[string]ForgeConfig{KindGitea: c}})
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "p4ss")
	}
	_, err := New(Config{Forges: map[string]ForgeConfig{KindGitea: {ClientID: "c", URL: "https://example.com/git/"}}})
	require.NoError(t, err)
	for _, c := range []ForgeConfig{
		{ClientID: "c", URL: "https://github.com", App: "a"},
		{ClientID: "c", URL: "https://github.com", App: "a/b"},
		{ClientID: "c", URL: "https://github.com", App: "a", PrivateKey: []byte("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n")},
	} {
		_, err := New(Config{Forges: map[string]ForgeConfig{KindGitHub: c}})
		require.Error(t, err)
	}
}

// memoryStore is a CredentialStore with one installation.
type memoryStore struct {
	mu sync.Mutex
	i  assay.Installation
}

func (m *memoryStore) Installations(context.Context, string) ([]*assay.Installation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.i
	return []*assay.Installation{&i}, nil
}

func (m *memoryStore) ReplaceCredential(_ context.Context, _, _ string, old, credential []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !bytes.Equal(m.i.Credential, old) {
		return false, nil
	}
	m.i.Credential = credential
	return true, nil
}

// TestRefresh: several processes use an expired token concurrently, and the host accepts a refresh token once.
func TestRefresh(t *testing.T) {
	f := newTestForge(t)
	later := time.Now().Add(3 * time.Hour)
	store := &memoryStore{}
	change := func(c *Config) { c.Store, c.Now = store, func() time.Time { return later } }
	first := f.sources(change)
	c, err := first.Authorize(t.Context(), KindGitLab, grant(""), testCallback)
	require.NoError(t, err)
	store.i = assay.Installation{ID: "i", Provider: KindGitLab, ExternalID: "7", Status: "active"}
	c.Credential.Expires = later.Add(-time.Hour)
	store.i.Credential, err = first.Seal("i", c.Credential)
	require.NoError(t, err)

	stale := store.i
	var all sync.WaitGroup
	for range 3 {
		s := f.sources(change)
		all.Go(func() {
			i := stale
			fresh, err := s.fresh(t.Context(), &i, s.forges[KindGitLab].(*oauthForge))
			if err != nil || fresh.Token != testToken {
				t.Errorf("refresh: %v", err)
			}
		})
	}
	all.Wait()
	f.mu.Lock()
	refreshed := f.refresh
	f.mu.Unlock()
	// With the advanced clock, the new token has expired, too, so each process may refresh in turn.
	require.GreaterOrEqual(t, refreshed, 1)
	saved, err := first.Open(&store.i)
	require.NoError(t, err)
	require.Equal(t, "refresh-"+strconv.Itoa(refreshed), saved.RefreshToken)
	require.True(t, saved.Refreshing.IsZero())

	// If the host rejects the refresh token, the stored credential does not change.
	f.set("POST /oauth/token", "400 ")
	before := store.i
	_, err = first.Checkout(t.Context(), &before, c.Repositories[0], Want{}, t.TempDir())
	require.ErrorContains(t, err, "connect it again")
	require.Equal(t, before.Credential, store.i.Credential)
}

func TestEvents(t *testing.T) {
	f := newTestForge(t)
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	s := f.sources(func(c *Config) { c.Now = func() time.Time { return now } })
	commit := strings.Repeat("ab", 20)
	push := func(name string) string {
		return fmt.Sprintf(`{"object_kind":"push","ref":"refs/heads/main","before":"%s","after":%q,%s,"commits":[]}`, strings.Repeat("0", 40), commit, name)
	}
	hub := push(`"repository":{"full_name":"acme/shop","default_branch":"main"},"installation":{"id":42}`)
	lab := push(`"project":{"path_with_namespace":"acme/shop","default_branch":"main"}`)
	mac := func(secret string, parts ...string) []byte {
		return sum(secret, []byte(strings.Join(parts, "")))
	}
	at := strconv.FormatInt(now.Unix(), 10)
	standard := func(secret, id, at, body string) string {
		return "v1,AAAA v1," + base64.StdEncoding.EncodeToString(mac(secret, id, ".", at, ".", body))
	}
	pushed := &Event{Kind: EventPush, Repository: "acme/shop", Branch: "main", Default: "main", Commit: commit}
	old := strconv.FormatInt(now.Add(-6*time.Minute).Unix(), 10)
	for name, c := range map[string]struct {
		kind, body string
		header     map[string]string
		want       *Event // nil: the signature is rejected
	}{
		"github":               {KindGitHub, hub, map[string]string{"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac("hook-secret", hub))}, pushed},
		"github, none":         {KindGitHub, hub, map[string]string{"X-GitHub-Event": "push"}, nil},
		"github, other secret": {KindGitHub, hub, map[string]string{"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac("other", hub))}, nil},
		"github, other body":   {KindGitHub, hub + " ", map[string]string{"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac("hook-secret", hub))}, nil},
		"github, no prefix":    {KindGitHub, hub, map[string]string{"X-GitHub-Event": "push", "X-Hub-Signature-256": hex.EncodeToString(mac("hook-secret", hub))}, nil},
		"gitea":                {KindGitea, hub, map[string]string{"X-Gitea-Event": "push", "X-Gitea-Signature": hex.EncodeToString(mac("hook-secret", hub))}, pushed},
		"gitea, empty":         {KindGitea, hub, map[string]string{"X-Gitea-Event": "push", "X-Gitea-Signature": ""}, nil},
		"gitea, of github":     {KindGitea, hub, map[string]string{"X-Gitea-Event": "push", "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac("hook-secret", hub))}, nil},
		"gitlab":               {KindGitLab, lab, map[string]string{"X-Gitlab-Token": "hook-secret", "X-Gitlab-Event": "Push Hook"}, pushed},
		"gitlab, none":         {KindGitLab, lab, map[string]string{"X-Gitlab-Event": "Push Hook"}, nil},
		"gitlab, prefix":       {KindGitLab, lab, map[string]string{"X-Gitlab-Token": "hook-secre"}, nil},
		"gitlab, signed":       {KindGitLab, lab, map[string]string{"Webhook-Id": "1", "Webhook-Timestamp": at, "Webhook-Signature": standard("hook-secret", "1", at, lab)}, pushed},
		"gitlab, replayed":     {KindGitLab, lab, map[string]string{"Webhook-Id": "1", "Webhook-Timestamp": old, "Webhook-Signature": standard("hook-secret", "1", old, lab)}, nil},
		"gitlab, other id":     {KindGitLab, lab, map[string]string{"Webhook-Id": "2", "Webhook-Timestamp": at, "Webhook-Signature": standard("hook-secret", "1", at, lab)}, nil},
		"gitlab, both":         {KindGitLab, lab, map[string]string{"X-Gitlab-Token": "hook-secret", "Webhook-Signature": "v1,AAAA"}, nil},
		"unknown kind":         {KindGit, lab, map[string]string{"X-Gitlab-Token": "hook-secret"}, nil},
	} {
		header := http.Header{}
		for field, value := range c.header {
			header.Set(field, value)
		}
		got, err := s.Event(c.kind, header, []byte(c.body))
		if c.want == nil {
			require.ErrorIs(t, err, errSignature, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}

	event := func(kind, body string) *Event {
		t.Helper()
		header := http.Header{}
		header.Set("X-GitHub-Event", kind)
		header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac("hook-secret", body)))
		e, err := s.Event(KindGitHub, header, []byte(body))
		require.NoError(t, err, body)
		return e
	}
	for body, want := range map[string]*Event{
		`{"action":"deleted","installation":{"id":42}}`:   {Kind: EventDeleted, InstallationID: "42"},
		`{"action":"suspend","installation":{"id":42}}`:   {Kind: EventSuspended, InstallationID: "42"},
		`{"action":"unsuspend","installation":{"id":42}}`: {Kind: EventRestored, InstallationID: "42"},
		`{"action":"created","installation":{"id":42}}`:   {},
	} {
		require.Equal(t, want, event("installation", body))
	}
	require.Equal(t, &Event{Kind: EventRepositories, InstallationID: "42", Added: []string{"a/b"}, Removed: []string{"a/c"}},
		event("installation_repositories", `{"action":"added","installation":{"id":42},"repositories_added":[{"full_name":"a/b"}],"repositories_removed":[{"full_name":"a/c"}]}`))
	require.Equal(t, &Event{}, event("ping", `{"zen":"x"}`))
	for _, body := range []string{
		`{"ref":"refs/tags/main","after":"` + commit + `"}`, `{"ref":"refs/heads/main","after":"` + strings.Repeat("0", 40) + `"}`,
		`{"ref":"refs/heads/main","after":"--x"}`, `{"ref":"main"}`, `{}`,
	} {
		require.Empty(t, event("push", body).Branch, body)
	}
	bad := http.Header{}
	bad.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac("hook-secret", "[1]")))
	_, err := s.Event(KindGitHub, bad, []byte("[1]"))
	require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
	silent := f.sources(func(c *Config) {
		for kind, one := range c.Forges {
			one.WebhookSecret = ""
			c.Forges[kind] = one
		}
	})
	empty := http.Header{}
	empty.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac("", hub)))
	_, err = silent.Event(KindGitHub, empty, []byte(hub))
	require.ErrorIs(t, err, errSignature, "an empty secret accepts nothing")
}
