// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"assay/internal/agentstub"
)

// TestAgentStub starts the stand-in and calls it as assay would.
func TestAgentStub(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key := jose.JSONWebKey{Key: private, KeyID: "k", Algorithm: string(jose.EdDSA), Use: "sig"}
	published, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	require.NoError(t, err)
	assay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(published) }))
	defer assay.Close()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, nil)
	require.NoError(t, err)
	now := time.Now()
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": assay.URL, "aud": "assay-agent", "sub": "key:ABCDEF", "org_id": "acme", "credential": "api_key",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr, log := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(&environment{
			ctx: ctx, stdout: io.Discard, stderr: log,
			args:    []string{"agent-stub", "--address", "127.0.0.1:0", "--jwks-url", assay.URL + "/.well-known/jwks.json", "--log-format", "json", "--partner-organizations", "acme"},
			environ: []string{"ASSAY_REPOSITORY_LIMIT=1", "ASSAY_LOG_LEVEL=debug"},
		})
		log.Close()
	}()
	var all strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &all))
	var address string
	for address == "" && lines.Scan() {
		var line struct{ URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			address = line.URL
		}
	}
	require.NotEmpty(t, address, all.String())
	require.Contains(t, all.String(), "STAND-IN")
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		for lines.Scan() {
		}
	}()

	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	ask := func(method, path, token string) (int, string) {
		req, err := http.NewRequest(method, address+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "true", res.Header.Get(agentstub.Header))
		return res.StatusCode, string(body)
	}
	status, body := ask("POST", "/codebase/partner/migrate/execute", token)
	require.Equal(t, http.StatusOK, status, body)
	status, body = ask("GET", "/repositories", token)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 1, strings.Count(body, `"active":true`), "the limit of the environment")
	status, _ = ask("GET", "/repositories", "a.b.c")
	require.Equal(t, http.StatusUnauthorized, status)

	cancel()
	require.Zero(t, <-ended)
	<-rest
	for _, part := range strings.Split(token, ".") {
		require.NotContains(t, all.String(), part)
	}
}

func TestAgentStubRefusals(t *testing.T) {
	r := call{}.run("agent-stub", "--address", "8090", "--jwks-url", "file:///keys", "--repository-limit", "0", "--audience", "", "--jwks-ca", "/does/not/exist")
	require.Equal(t, exitUsage, r.code)
	for _, flag := range []string{"address", "jwks-url", "repository-limit", "audience", "jwks-ca"} {
		require.Contains(t, r.stderr, "--"+flag)
	}
	r = call{}.run("agent-stub", "--address", "203.0.113.1:1")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--address")
}
