// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"assay/internal/auth"
)

// parseServe parses a command line of serve. It returns the configuration, the warnings and the errors.
func parseServe(t *testing.T, environ []string, args ...string) (serverConfig, []string, error) {
	t.Helper()
	e := &environment{ctx: context.Background(), args: append([]string{"serve"}, args...), environ: environ, stdout: io.Discard, stderr: io.Discard}
	cmd, err := parse(e)
	if err != nil {
		return serverConfig{}, e.warnings, err
	}
	return cmd.(*serveCmd).serverConfig, e.warnings, nil
}

// file writes a file and returns its path.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestPrecedence(t *testing.T) {
	config := file(t, "assay.yaml", "window: 48h\nmax-services: 7\nlog-format: json\nhttp-address: 127.0.0.1:3\n")
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		want    time.Duration
	}{
		{"default", nil, nil, 720 * time.Hour},
		{"file", nil, []string{"--config", config}, 48 * time.Hour},
		{"file named by the environment", []string{"ASSAY_CONFIG=" + config}, nil, 48 * time.Hour},
		{"environment", []string{"ASSAY_WINDOW=24h"}, nil, 24 * time.Hour},
		{"environment beats file", []string{"ASSAY_WINDOW=24h"}, []string{"--config", config}, 24 * time.Hour},
		{"an empty variable is not set", []string{"ASSAY_WINDOW="}, []string{"--config", config}, 48 * time.Hour},
		{"flag", nil, []string{"--window", "12h"}, 12 * time.Hour},
		{"flag beats file", nil, []string{"--config", config, "--window", "12h"}, 12 * time.Hour},
		{"flag beats environment", []string{"ASSAY_WINDOW=24h"}, []string{"--window", "12h"}, 12 * time.Hour},
		{"flag beats all", []string{"ASSAY_WINDOW=24h", "ASSAY_CONFIG=" + config}, []string{"--window", "12h"}, 12 * time.Hour},
		{"flag with its default's value", []string{"ASSAY_WINDOW=24h"}, []string{"--window", "720h"}, 720 * time.Hour},
		{"config flag beats its variable", []string{"ASSAY_CONFIG=/does/not/exist"}, []string{"--config", config}, 48 * time.Hour},
		{"a broken value that is overridden", []string{"ASSAY_WINDOW=often"}, []string{"--window", "12h"}, 12 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, warnings, err := parseServe(t, c.environ, c.args...)
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Equal(t, c.want, cfg.Window)
		})
	}

	cfg, _, err := parseServe(t, []string{"ASSAY_OTLP_GRPC_ADDRESS=127.0.0.1:2", "ASSAY_TRACE_MEMORY=3MiB"}, "--config", config)
	require.NoError(t, err)
	require.Equal(t, 7, cfg.MaxServices)
	require.Equal(t, "json", cfg.LogFormat)
	require.Equal(t, "127.0.0.1:3", cfg.HTTPAddress)
	require.Equal(t, "127.0.0.1:2", cfg.OTLPGRPCAddress)
	require.Equal(t, byteSize(3<<20), cfg.TraceMemory)
}

func TestUnknownVariablesAreWarnings(t *testing.T) {
	_, warnings, err := parseServe(t, []string{"ASSAY_WIDNOW=24h", "ASSAY_MIN_SCORE=3", "ASSAY_http_address=x", "ASSAYX=1", "PATH=/bin"})
	require.NoError(t, err)
	require.Equal(t, []string{
		"the environment variable ASSAY_http_address is not a setting of this version",
		"the environment variable ASSAY_WIDNOW is not a setting of this version",
	}, warnings)

	r := call{environ: []string{"ASSAY_WIDNOW=24h"}}.run("version")
	require.Zero(t, r.code)
	require.Equal(t, "assay: warning: the environment variable ASSAY_WIDNOW is not a setting of this version\n", r.stderr)
}

func TestConfigFileErrors(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "windows: 1h\n", []string{`line 1: unknown key "windows"`}},
		{"key with underscores", "http_address: x:1\n", []string{`line 1: unknown key "http_address", did you mean "http-address"?`}},
		{"config within", "config: other.yaml\n", []string{`line 1: unknown key "config"`}},
		{"several", "a: 1\nwindow: 48h\nb: 2\n", []string{`line 1: unknown key "a"`, `line 3: unknown key "b"`}},
		{"key twice", "window: 48h\nwindow: 24h\n", []string{"twice"}},
		{"bad value", "window: often\n", []string{"window: ", `"often"`}},
		{"bad number", "max-services: many\n", []string{"max-services: "}},
		{"bad enum", "log-format: xml\n", []string{"log-format: must be one of text, json"}},
		{"no value", "window:\n", []string{"line 1: window: a value is expected"}},
		{"a mapping", "window:\n  hours: 3\n", []string{"line 1: window: a value is expected"}},
		{"a list of lists", "scopes: [[a]]\n", []string{"line 1: scopes: a list of plain values"}},
		{"not a mapping", "- window\n", []string{"line 1: a mapping of settings is expected"}},
		{"no YAML", "window: [\n", []string{"yaml"}},
		{"two documents", "window: 48h\n---\nwindow: 24h\n", []string{"more than one YAML document"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := file(t, "assay.yaml", c.text)
			_, _, err := parseServe(t, nil, "--config", path)
			require.Error(t, err)
			require.ErrorAs(t, err, new(usageError))
			require.ErrorContains(t, err, path)
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "window: &w 48h\ntrace-max: *w\n", "rate-limit: 10\npublic-url: \"https://assay.example.com\"\n", "name: x\n"} {
		_, _, err := parseServe(t, nil, "--config", file(t, "assay.yaml", text))
		require.NoError(t, err, text)
	}
	_, _, err := parseServe(t, nil, "--config", filepath.Join(t.TempDir(), "missing.yaml"))
	require.ErrorContains(t, err, "missing.yaml")
}

func TestListsInConfigFile(t *testing.T) {
	e := &environment{
		ctx: context.Background(), stdout: io.Discard, stderr: io.Discard,
		args: []string{"key", "create", "--name", "x", "--config", file(t, "assay.yaml", "scopes: [read, ingest]\n")},
	}
	cmd, err := parse(e)
	require.NoError(t, err)
	require.Equal(t, []string{"read", "ingest"}, cmd.(*keyCreateCmd).Scopes)

	a, b := t.TempDir(), t.TempDir()
	for name, c := range map[string]struct {
		environ []string
		text    string
		get     func(*serverConfig) any
		want    any
	}{
		"repeatable directories":    {nil, "agent-local-root: [" + a + ", " + b + "]\n", func(c *serverConfig) any { return c.AgentLocalRoot }, []string{a, b}},
		"repeatable variables":      {nil, "agent-test-env: [A=1, 'B=2,3']\n", func(c *serverConfig) any { return c.AgentTestEnv }, []string{"A=1", "B=2,3"}},
		"one of a repeatable flag":  {nil, "agent-test-env: A=1,2\n", func(c *serverConfig) any { return c.AgentTestEnv }, []string{"A=1,2"}},
		"a variable is one value":   {[]string{"ASSAY_AGENT_TEST_ENV=A=1,2"}, "", func(c *serverConfig) any { return c.AgentTestEnv }, []string{"A=1,2"}},
		"separated by commas":       {nil, "oidc-scopes: openid,email\n", func(c *serverConfig) any { return c.OIDCScopes }, []string{"openid", "email"}},
		"empty":                     {nil, "cors-allowed-origins: []\n", func(c *serverConfig) any { return c.CORSAllowedOrigins }, []string{}},
		"list for two numbers":      {nil, "agent-model-budget: [500000, 2.50]\n", func(c *serverConfig) any { return c.AgentModelBudget }, modelBudget{Tokens: 500_000, Cost: 2_500_000}},
		"list of one for one value": {nil, "log-format: [json]\n", func(c *serverConfig) any { return c.LogFormat }, "json"},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--agent-model-provider", "anthropic", "--agent-model", "m", "--agent-model-price", "3,15", "--config", file(t, "assay.yaml", c.text)}
			cfg, _, err := parseServe(t, c.environ, args...)
			require.NoError(t, err)
			require.Equal(t, c.want, c.get(&cfg))
		})
	}
}

func TestAllProblemsReported(t *testing.T) {
	config := file(t, "assay.yaml", "bogus: 1\nrate-limit: -3\n")
	_, _, err := parseServe(t, []string{"ASSAY_TRACE_IDLE=soon", "ASSAY_TRACE_MEMORY=lots"}, "--config", config,
		"--http-address", "nowhere", "--store", "mysql://x", "--tls-cert", "cert.pem", "--window", "90m", "--bootstrap-api-key", "hunter2")
	require.Error(t, err)
	for _, want := range []string{
		`unknown key "bogus"`, "ASSAY_TRACE_IDLE: ", "ASSAY_TRACE_MEMORY: ", "--rate-limit: -3", `--http-address: "nowhere"`,
		"--store: unknown kind of store", "--tls-cert and --tls-key belong together", "--window: 1h30m0s is not a multiple", "--bootstrap-api-key: the key does not have the form assay_sk_",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "hunter2", "a secret")
}

func TestSecretFiles(t *testing.T) {
	const key = "assay_sk_Ab3dEf_0123456789abcdef0123456789abcdef"
	cfg, _, err := parseServe(t, nil, "--bootstrap-api-key-file", file(t, "key", key+"\n"))
	require.NoError(t, err)
	got, err := cfg.bootstrapKey()
	require.NoError(t, err)
	require.Equal(t, key, string(got))

	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"missing":   {[]string{"--bootstrap-api-key-file", "/does/not/exist"}, "--bootstrap-api-key-file: "},
		"empty":     {[]string{"--bootstrap-api-key-file", file(t, "key", "\n")}, "is empty"},
		"both":      {[]string{"--bootstrap-api-key-file", file(t, "key", key), "--bootstrap-api-key", key}, "are both set"},
		"malformed": {[]string{"--bootstrap-api-key-file", file(t, "key", "swordfish")}, "does not have the form"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parseServe(t, nil, c.args...)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "swordfish")
			require.NotContains(t, err.Error(), key)
		})
	}
}

// TestEverySecretCanBeAFile checks the flags of all commands.
func TestEverySecretCanBeAFile(t *testing.T) {
	k, err := kong.New(new(cli))
	require.NoError(t, err)
	secrets := 0
	var visit func(*kong.Node)
	visit = func(n *kong.Node) {
		flags := map[string]bool{}
		for _, f := range n.Flags {
			flags[f.Name] = true
		}
		for _, f := range n.Flags {
			if f.Target.Type() == reflect.TypeFor[auth.Secret]() {
				secrets++
				require.True(t, flags[f.Name+"-file"], "%s: --%s", n.Path(), f.Name)
			}
		}
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(k.Model.Node)
	require.Greater(t, secrets, 5)

	// The settings file names the file of the secret.
	key := file(t, "key", testKey+"\n")
	cfg, _, err := parseServe(t, nil, "--config", file(t, "assay.yaml", "bootstrap-api-key-file: "+key+"\n"))
	require.NoError(t, err)
	got, err := cfg.bootstrapKey()
	require.NoError(t, err)
	require.Equal(t, testKey, string(got))
	_, _, err = parseServe(t, []string{"ASSAY_BOOTSTRAP_API_KEY=" + testKey}, "--config", file(t, "assay.yaml", "bootstrap-api-key-file: "+key+"\n"))
	require.ErrorContains(t, err, "are both set")
}

func TestDefaultsHaveNoProblems(t *testing.T) {
	cfg, err := defaultConfig()
	require.NoError(t, err)
	require.Empty(t, cfg.problems())
	require.Equal(t, "127.0.0.1:8080", cfg.HTTPAddress)
	require.Equal(t, "127.0.0.1:4317", cfg.OTLPGRPCAddress)
	require.Equal(t, "127.0.0.1:4318", cfg.OTLPHTTPAddress)
	require.Equal(t, 720*time.Hour, cfg.Window)
	require.Equal(t, byteSize(64<<20), cfg.MaxUnpackedBytes)
}

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*serverConfig)
		want   string
	}{
		"port":              {func(c *serverConfig) { c.OTLPHTTPAddress = "localhost:http" }, "--otlp-http-address"},
		"metrics address":   {func(c *serverConfig) { c.MetricsAddress = ":99999" }, "--metrics-address"},
		"no address":        {func(c *serverConfig) { c.OTLPGRPCAddress = "" }, "--otlp-grpc-address"},
		"base path":         {func(c *serverConfig) { c.BasePath = "api" }, "--base-path"},
		"base path dots":    {func(c *serverConfig) { c.BasePath = "/a/../b" }, "--base-path"},
		"base path query":   {func(c *serverConfig) { c.BasePath = "/a?b" }, "--base-path"},
		"base path pattern": {func(c *serverConfig) { c.BasePath = "/{x}" }, "--base-path"},
		"base path taken":   {func(c *serverConfig) { c.BasePath = "/metrics/" }, "--base-path"},
		"public url":        {func(c *serverConfig) { c.PublicURL = "assay.example.com" }, "--public-url"},
		"public url path":   {func(c *serverConfig) { c.PublicURL = "https://assay.example.com/x" }, "--public-url"},
		"public url user":   {func(c *serverConfig) { c.PublicURL = "https://u:p@assay.example.com" }, "--public-url"},
		"origin path":       {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"https://a.example/"} }, "--cors-allowed-origins"},
		"origin scheme":     {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"a.example"} }, "--cors-allowed-origins"},
		"origin user":       {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"https://u:p@a.example"} }, "--cors-allowed-origins"},
		"origin wildcard":   {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"https://*.example"} }, "--cors-allowed-origins"},
		"origin case":       {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"https://A.example"} }, "--cors-allowed-origins"},
		"origin port":       {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"https://a.example:443"} }, "--cors-allowed-origins"},
		"origin null":       {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"null"} }, "--cors-allowed-origins"},
		"no origin":         {func(c *serverConfig) { c.CORSAllowedOrigins = []string{""} }, "--cors-allowed-origins"},
		"all and one":       {func(c *serverConfig) { c.CORSAllowedOrigins = []string{"*", "https://a.example"} }, "--cors-allowed-origins"},
		"many origins":      {func(c *serverConfig) { c.CORSAllowedOrigins = make([]string, maxOrigins+1) }, "--cors-allowed-origins"},
		"key prefix":        {func(c *serverConfig) { c.APIKeyPrefix = "a_b" }, "--api-key-prefix"},
		"rate limit":        {func(c *serverConfig) { c.RateLimit = -1 }, "--rate-limit"},
		"step":              {func(c *serverConfig) { c.WindowStep = time.Millisecond }, "--window-step"},
		"window":            {func(c *serverConfig) { c.Window = time.Minute }, "--window"},
		"window of 0":       {func(c *serverConfig) { c.Window = 0 }, "--window"},
		"too many steps":    {func(c *serverConfig) { c.WindowStep = time.Second }, "--window"},
		"trace idle":        {func(c *serverConfig) { c.TraceIdle = 0 }, "--trace-idle"},
		"trace max":         {func(c *serverConfig) { c.TraceMax = time.Second }, "--trace-max"},
		"trace memory":      {func(c *serverConfig) { c.TraceMemory = 1 }, "--trace-memory"},
		"score interval":    {func(c *serverConfig) { c.ScoreInterval = -time.Second }, "--score-interval"},
		"commit interval":   {func(c *serverConfig) { c.CommitInterval = time.Minute }, "--commit-interval"},
		"services":          {func(c *serverConfig) { c.MaxServices = 0 }, "--max-services"},
		"metric names":      {func(c *serverConfig) { c.MaxMetricNames = -1 }, "--max-metric-names"},
		"packed":            {func(c *serverConfig) { c.MaxPackedBytes = 0 }, "--max-packed-bytes"},
		"unpacked":          {func(c *serverConfig) { c.MaxUnpackedBytes = 2 << 30 }, "--max-unpacked-bytes"},
		"tls pair":          {func(c *serverConfig) { c.TLSKey = "key.pem" }, "--tls-cert and --tls-key"},
		"tls files":         {func(c *serverConfig) { c.TLSCert, c.TLSKey = "/no/cert.pem", "/no/key.pem" }, "cert.pem"},
		"shutdown":          {func(c *serverConfig) { c.ShutdownTimeout = 0 }, "--shutdown-timeout"},
		"store":             {func(c *serverConfig) { c.Store = "mysql://x" }, "--store"},
		"model without":     {func(c *serverConfig) { c.AgentModel = "m" }, "need --agent-model-provider"},
		"no model":          {func(c *serverConfig) { c.AgentModelProvider = "openai" }, "--agent-model: the model"},
		"model url": {func(c *serverConfig) {
			c.AgentModelProvider, c.AgentModel, c.AgentModelURL = "anthropic", "m", "ftp://x"
		}, "the provider's URL"},
		"model cost": {func(c *serverConfig) {
			c.AgentModelProvider, c.AgentModel, c.AgentModelBudget.Cost = "anthropic", "m", 1
		}, "--agent-model-price"},
		"alias":            {func(c *serverConfig) { c.AgentPathAlias = "a/b" }, "--agent-path-alias"},
		"alias taken":      {func(c *serverConfig) { c.AgentPathAlias = "services" }, "--agent-path-alias: /v1/services has handlers of its own"},
		"alias taken too":  {func(c *serverConfig) { c.AgentPathAlias = "agent" }, "--agent-path-alias"},
		"currency":         {func(c *serverConfig) { c.PriceCurrency = "usd" }, `--price-currency: the currency "usd"`},
		"price of traces":  {func(c *serverConfig) { c.PriceTracesPerGB = -1 }, "--price-traces-per-gb: the price of traces per GB is -1"},
		"price of metrics": {func(c *serverConfig) { c.PriceMetricsPerGB = -1 }, "--price-metrics-per-gb: the price of metrics"},
		"price of logs":    {func(c *serverConfig) { c.PriceLogsPerGB = -1 }, "--price-logs-per-gb: the price of logs"},
		"price of series":  {func(c *serverConfig) { c.PricePer1000Series = -1 }, "--price-per-1000-series: the price of 1,000 series"},
		"data dir":         {func(c *serverConfig) { c.DataDir = "" }, "--data-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := defaultConfig()
			require.NoError(t, err)
			c.change(&cfg)
			problems := cfg.problems()
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], c.want)
		})
	}
	for name, change := range map[string]func(*serverConfig){
		"root":            func(c *serverConfig) { c.BasePath = "/" },
		"empty base path": func(c *serverConfig) { c.BasePath = "" },
		"slash at end":    func(c *serverConfig) { c.BasePath = "/a/b/" },
		"public url":      func(c *serverConfig) { c.PublicURL = "https://assay.example.com/" },
		"ipv6":            func(c *serverConfig) { c.HTTPAddress = "[::1]:0" },
		"all interfaces":  func(c *serverConfig) { c.HTTPAddress = ":8080" },
	} {
		cfg, err := defaultConfig()
		require.NoError(t, err)
		change(&cfg)
		require.Empty(t, cfg.problems(), name)
	}
}

func TestByteSize(t *testing.T) {
	for in, want := range map[string]byteSize{"0": 0, "17": 17, "4KiB": 4096, "16MiB": 16 << 20, "1GiB": 1 << 30} {
		var b byteSize
		require.NoError(t, b.UnmarshalText([]byte(in)))
		require.Equal(t, want, b)
		require.Equal(t, in, b.String())
	}
	for _, in := range []string{"", "x", "-1", "1.5MiB", "MiB", "1 MiB", "1MB", "9223372036854775807KiB", "99999999999999999999"} {
		require.Error(t, new(byteSize).UnmarshalText([]byte(in)), in)
	}
}

func TestModelAmounts(t *testing.T) {
	for in, want := range map[string]modelBudget{"1": {Tokens: 1}, "500000": {Tokens: 500_000}, "500000,2.50": {Tokens: 500_000, Cost: 2_500_000}} {
		var b modelBudget
		require.NoError(t, b.UnmarshalText([]byte(in)))
		require.Equal(t, want, b)
	}
	for _, in := range []string{"", "0", "-1", "1.5", "1,", "1,0", "1,-1", "1,x", ",1", "1,2,3", "1,NaN", "1,Inf", "1,1e9"} {
		require.Error(t, new(modelBudget).UnmarshalText([]byte(in)), in)
	}
	var p modelPrice
	require.NoError(t, p.UnmarshalText([]byte("3,15.5")))
	require.Equal(t, modelPrice{Input: 3, Output: 15.5}, p)
	for _, in := range []string{"", "3", "3,", ",3", "-1,2", "1,2,3", "NaN,1"} {
		require.Error(t, new(modelPrice).UnmarshalText([]byte(in)), in)
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"", "window: 1h", "window: [a, b]", "a: &x 1\nwindow: *x", "? [a]\n: b", "window: *window", "<<: {window: 1}", "--- !!binary x"} {
		f.Add([]byte(s))
	}
	known := map[string]bool{"window": true}
	f.Fuzz(func(t *testing.T, text []byte) {
		values, _ := parseConfig(text, known)
		for name := range values {
			require.True(t, known[name], name)
		}
	})
}
