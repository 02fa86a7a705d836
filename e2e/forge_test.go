// SPDX-License-Identifier: Apache-2.0

//go:build forge

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	giteaBinary = flag.String("gitea", "", "program of Gitea")
	giteaFiles  = flag.String("gitea-files", "", "directory with its templates")
)

const forgeSecret = "forge-webhook-secret"

// gitea is a running Gitea with a user.
type gitea struct {
	t      *testing.T
	url    string
	ca     string // file
	token  string
	client *http.Client
}

// startGitea starts Gitea over TLS on loopback, with SQLite and the user mona.
func startGitea(t *testing.T) *gitea {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	g := &gitea{t: t, url: fmt.Sprintf("https://127.0.0.1:%d", port), ca: filepath.Join(dir, "cert.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gitea"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(g.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	var secret [32]byte
	_, _ = rand.Read(secret[:])
	text := base64.RawURLEncoding.EncodeToString(secret[:])
	config := filepath.Join(dir, "app.ini")
	require.NoError(t, os.WriteFile(config, []byte(strings.NewReplacer("{dir}", dir, "{port}", fmt.Sprint(port), "{files}", *giteaFiles, "{secret}", text).Replace(`
RUN_MODE = prod
WORK_PATH = {dir}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = https
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = https://127.0.0.1:{port}/
LOCAL_ROOT_URL = https://127.0.0.1:{port}/
CERT_FILE = {dir}/cert.pem
KEY_FILE = {dir}/key.pem
STATIC_ROOT_PATH = {files}
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = {dir}/gitea.db
[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
[oauth2]
JWT_SECRET = {secret}
[webhook]
ALLOWED_HOST_LIST = loopback
[service]
DISABLE_REGISTRATION = true
[log]
LEVEL = warn
`)), 0o600))
	do := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), *giteaBinary, append([]string{"--config", config}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return strings.TrimSpace(lines[len(lines)-1])
	}
	do("migrate")
	do("admin", "user", "create", "--username", "mona", "--password", "correct-horse-1", "--email", "mona@example.com", "--must-change-password=false")
	g.token = do("admin", "user", "generate-access-token", "--username", "mona", "--token-name", "e2e", "--scopes", "all", "--raw")

	var log bytes.Buffer
	web := exec.Command(*giteaBinary, "--config", config, "web")
	web.Env, web.Stdout, web.Stderr = append(os.Environ(), "HOME="+dir), &log, &log
	require.NoError(t, web.Start())
	t.Cleanup(func() {
		_ = web.Process.Kill() // it has nothing to save
		_ = web.Wait()
		if t.Failed() {
			t.Logf("Gitea: %s", log.String())
		}
	})
	roots := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(certificate)
	require.NoError(t, err)
	roots.AddCert(parsed)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	g.client = &http.Client{
		Jar: jar, Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	eventually(t, func() bool {
		resp, err := g.client.Get(g.url + "/api/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, "Gitea does not serve")
	return g
}

// api calls the API as mona.
func (g *gitea) api(method, path string, body any) map[string]any {
	g.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(g.t, err)
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.url+"/api/v1"+path, bytes.NewReader(text))
	require.NoError(g.t, err)
	req.Header.Set("Authorization", "token "+g.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.client.Do(req)
	require.NoError(g.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(g.t, err)
	require.Less(g.t, resp.StatusCode, 300, "%s %s: %s", method, path, answer)
	var data map[string]any
	if len(answer) > 0 {
		require.NoError(g.t, json.Unmarshal(answer, &data), string(answer))
	}
	return data
}

// browse requests a page as the browser of mona, follows redirects within Gitea, and returns the last answer.
func (g *gitea) browse(method, target string, form url.Values) (status int, location, page string) {
	g.t.Helper()
	for range 5 {
		req, err := http.NewRequestWithContext(g.t.Context(), method, target, strings.NewReader(form.Encode()))
		require.NoError(g.t, err)
		if form != nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", g.url)
		}
		resp, err := g.client.Do(req)
		require.NoError(g.t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(g.t, err)
		require.NoError(g.t, resp.Body.Close())
		location = resp.Header.Get("Location")
		if strings.HasPrefix(location, "/") {
			location = g.url + location
		}
		if !strings.HasPrefix(location, g.url) {
			return resp.StatusCode, location, string(text)
		}
		method, target, form = http.MethodGet, location, nil
	}
	require.Fail(g.t, "Gitea redirects without end")
	return 0, "", ""
}

var inputs = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"`)

// fields returns the hidden fields of the forms of a page.
func fields(page string) url.Values {
	all := url.Values{}
	for _, m := range inputs.FindAllStringSubmatch(page, -1) {
		all.Set(m[1], strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#39;", "'", "&#43;", "+").Replace(m[2]))
	}
	return all
}

// TestForge connects a repository of a real Gitea by OAuth, reviews it, fixes what the review found by a pull request,
// and sees the review of the merge resolve the finding.
func TestForge(t *testing.T) {
	g := startGitea(t)
	var assay *url.URL // of the server behind proxy, whose address is known before
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httputil.NewSingleHostReverseProxy(assay).ServeHTTP(w, r)
	}))
	defer proxy.Close()
	at := proxy.URL + "/api/v1/agent"
	app := g.api("POST", "/user/applications/oauth2", map[string]any{
		"name": "assay", "redirect_uris": []string{at + "/onboarding/callback/gitea"}, "confidential_client": true,
	})
	g.api("POST", "/user/repos", map[string]any{"name": "shop", "private": true, "default_branch": "main"})
	write := func(path, text string) (commit string) {
		t.Helper()
		body := map[string]any{"content": base64.StdEncoding.EncodeToString([]byte(text)), "message": "change", "branch": "main"}
		made := g.api("POST", "/repos/mona/shop/contents/"+path, body)
		return made["commit"].(map[string]any)["sha"].(string)
	}
	var first string
	for name, text := range fixture(t, "go") {
		first = write(name, text)
	}
	g.api("POST", "/repos/mona/shop/hooks", map[string]any{
		"type": "gitea", "active": true, "events": []string{"push"},
		"config": map[string]any{"url": at + "/webhooks/gitea", "content_type": "json", "secret": forgeSecret},
	})

	provider := startIssuer(t)
	flags := append(provider.flags(), goDirs(t, filepath.Join("testdata", "fix", "go"))...)
	d := startDaemon(t, t.TempDir(), append(flags, "--bootstrap-api-key", bootstrapKey, "--public-url", proxy.URL, "--agent-allow-private-hosts",
		"--agent-source-ca", g.ca, "--agent-gitea-url", g.url, "--agent-gitea-client-id", app["client_id"].(string),
		"--agent-gitea-client-secret", app["client_secret"].(string), "--agent-gitea-webhook-secret", forgeSecret)...)
	var err error
	assay, err = url.Parse(d.Root)
	require.NoError(t, err)
	require.Zero(t, d.assay(t, "organization", "set-external-id", "default", "org-1").Code)
	user := provider.token(t, "org-1")
	call := func(method, path, body string) json.RawMessage {
		t.Helper()
		a, err := d.ask(t.Context(), method, d.Root+"/api/v1/agent"+path, []byte(body), "Authorization", "Bearer "+user, "Content-Type", "application/json")
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, "%s %s: %s", method, path, a.Body)
		var answer struct {
			Data json.RawMessage `json:"data"`
		}
		require.NoError(t, json.Unmarshal(a.Body, &answer))
		return answer.Data
	}

	// Onboarding: sign in at Gitea, authorize, and confirm on the page of the callback.
	var session struct {
		URL string `json:"installation_url"`
	}
	require.NoError(t, json.Unmarshal(call("POST", "/onboarding/session", `{"write":true}`), &session))
	_, _, page := g.browse("GET", g.url+"/user/login", nil)
	form := fields(page)
	form.Set("user_name", "mona")
	form.Set("password", "correct-horse-1")
	g.browse("POST", g.url+"/user/login", form)
	status, location, page := g.browse("GET", session.URL, nil)
	if location == "" {
		require.Equal(t, 200, status)
		form = fields(page)
		form.Set("granted", "true")
		_, location, page = g.browse("POST", g.url+"/login/oauth/grant", form)
	}
	require.True(t, strings.HasPrefix(location, at+"/onboarding/callback/gitea?"), "%s: %s", location, page)
	resp, err := http.Get(location)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode, "%s", text)
	require.Contains(t, string(text), "default", "the organization that gets to read the repositories")
	resp, err = http.PostForm(at+"/onboarding/callback/gitea", fields(string(text)))
	require.NoError(t, err)
	text, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode, "%s", text)

	var listed struct {
		Data []struct {
			Provider string `json:"vcs_provider"`
			Account  string `json:"account"`
			Repos    []struct {
				ID   string `json:"id"`
				Name string `json:"repo_full_name"`
			} `json:"repos"`
		} `json:"data"`
	}
	require.NoError(t, json.Unmarshal(call("GET", "/repositories", ""), &listed))
	require.Len(t, listed.Data, 1)
	require.Equal(t, "gitea", listed.Data[0].Provider)
	require.True(t, strings.HasSuffix(listed.Data[0].Account, "/mona"))
	require.Len(t, listed.Data[0].Repos, 1)
	repository := listed.Data[0].Repos[0]
	require.Equal(t, "mona/shop", repository.Name)

	// The first review, on request.
	call("PATCH", "/repositories/"+repository.ID, `{"is_active":true}`)
	call("POST", "/codebase/review/execute", fmt.Sprintf(`{"repo_id":%q}`, repository.ID))
	type run struct {
		Status, Trigger, Commit, Error string
	}
	runs := func() map[string]run { // the last one by trigger
		var listed struct {
			Data []struct {
				Status  string `json:"status"`
				Trigger string `json:"triggerSource"`
				Commit  string `json:"commitSha"`
				Error   string `json:"error"`
			} `json:"data"`
		}
		require.NoError(t, json.Unmarshal(call("GET", "/executions", ""), &listed))
		all := map[string]run{}
		for _, r := range listed.Data {
			if all[r.Trigger] == (run{}) {
				all[r.Trigger] = run{r.Status, r.Trigger, r.Commit, r.Error}
			}
		}
		return all
	}
	ended := func(trigger, commit string) {
		t.Helper()
		eventually(t, func() bool {
			r := runs()[trigger]
			require.NotEqual(t, "failed", r.Status, r.Error)
			return r.Status == "completed" && r.Commit == commit
		}, "no review of %s by %s", commit, trigger)
	}
	type finding struct {
		ID         string `json:"finding_id"`
		Check      string `json:"check"`
		FixStatus  string `json:"fix_status"`
		Pull       int    `json:"pr_number"`
		PullStatus string `json:"pr_status"`
	}
	find := func(status string) (found finding) {
		var listed struct {
			Data []finding `json:"data"`
		}
		require.NoError(t, json.Unmarshal(call("GET", "/codebase/findings?status="+status, ""), &listed))
		for _, f := range listed.Data {
			if f.Check == "span-name-dynamic" {
				found = f
			}
		}
		return found
	}
	ended("manual", first)
	dynamic := find("active")
	require.NotEmpty(t, dynamic.ID)

	// A fix opens a pull request. The same fix again updates it.
	for range 2 {
		var scheduled struct {
			ExecutionID string `json:"executionId"`
		}
		require.NoError(t, json.Unmarshal(call("POST", "/codebase/fix/execute", fmt.Sprintf(`{"repo_id":%q,"finding_ids":[%q]}`, repository.ID, dynamic.ID)), &scheduled))
		var detail struct {
			Execution struct{ Status, Error string }
			Result    struct {
				Branch         string `json:"branch"`
				PullRequestURL string `json:"pull_request_url"`
				PatchURL       string `json:"patch_url"`
				Verification   struct{ Status, Reason string }
			}
		}
		eventually(t, func() bool {
			require.NoError(t, json.Unmarshal(call("GET", "/executions/"+scheduled.ExecutionID, ""), &detail))
			require.NotEqual(t, "failed", detail.Execution.Status, detail.Execution.Error)
			return detail.Execution.Status == "completed"
		}, "the fix does not end")
		require.Equal(t, "verified", detail.Result.Verification.Status, detail.Result.Verification.Reason)
		require.Equal(t, g.url+"/mona/shop/pulls/1", detail.Result.PullRequestURL)
		require.True(t, strings.HasPrefix(detail.Result.PatchURL, at+"/executions/"), detail.Result.PatchURL)
		require.EqualValues(t, 1, g.api("GET", "/repos/mona/shop", nil)["open_pr_counter"])
		pull := g.api("GET", "/repos/mona/shop/pulls/1", nil)
		require.Equal(t, detail.Result.Branch, pull["head"].(map[string]any)["ref"])
		require.Contains(t, pull["body"], "### Verification")
		require.EqualValues(t, 1, pull["changed_files"])
		t.Logf("pull request %v of %v:\n%v\n\n%v", pull["number"], detail.Result.Branch, pull["title"], pull["body"])
	}
	proposed := find("active")
	require.Equal(t, finding{dynamic.ID, dynamic.Check, "proposed", 1, "open"}, proposed)

	// The merge is a push, whose review resolves the finding.
	eventually(t, func() bool { return g.api("GET", "/repos/mona/shop/pulls/1", nil)["mergeable"] == true }, "Gitea does not check the pull request")
	g.api("POST", "/repos/mona/shop/pulls/1/merge", map[string]any{"Do": "merge"})
	merged := g.api("GET", "/repos/mona/shop/branches/main", nil)["commit"].(map[string]any)["id"].(string)
	ended("push", merged)
	require.Empty(t, find("active").ID)
	require.Equal(t, finding{dynamic.ID, dynamic.Check, "merged", 1, "merged"}, find("resolved"))
	t.Logf("runs: %v", runs())
}
