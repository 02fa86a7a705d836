// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"assay"
	"assay/internal/auth"
	"assay/internal/tlsreload"
)

// serverConfig holds the flags of a server.
type serverConfig struct {
	storeConfig
	replicaConfig
	identityConfig     `group:"auth"`
	dashboardConfig    `group:"dashboard"`
	metricsStoreConfig `group:"logvolume"`
	priceConfig        `group:"cost"`
	summaryConfig      `group:"summaries"`
	agentConfig        `group:"agent"`
	webhookConfig      `group:"webhooks"`

	HTTPAddress     string `name:"http-address" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the dashboard, the REST API, the probes and /metrics (${default})." group:"common"`
	OTLPGRPCAddress string `name:"otlp-grpc-address" default:"127.0.0.1:4317" placeholder:"HOST:PORT" help:"Address of OTLP/gRPC (${default})." group:"common"`
	OTLPHTTPAddress string `name:"otlp-http-address" default:"127.0.0.1:4318" placeholder:"HOST:PORT" help:"Address of OTLP/HTTP (${default})." group:"common"`
	MetricsAddress  string `placeholder:"HOST:PORT" help:"Separate address of /metrics, without authentication. By default /metrics is on the REST listener and needs a key of scope read beyond loopback." group:"listeners"`
	BasePath        string `default:"/api" placeholder:"PATH" help:"Path prefix of the REST API (${default})." group:"listeners" hidden:""`
	PublicURL       string `name:"public-url" placeholder:"URL" help:"External URL of the server: scheme and host." group:"common"`

	CORSAllowedOrigins []string `name:"cors-allowed-origins" placeholder:"ORIGIN" help:"Origins whose pages may call the REST API and OTLP/HTTP from a browser, such as https://app.example.com; * allows all. Default: none." group:"listeners"`

	BootstrapAPIKey     auth.Secret `name:"bootstrap-api-key" placeholder:"KEY" help:"API key of the first organization, created when the store is empty. By default a key is generated: it is printed on a terminal, else written to the file bootstrap-key in the data directory." group:"auth"`
	BootstrapAPIKeyFile string      `name:"bootstrap-api-key-file" placeholder:"FILE" help:"File that contains the bootstrap API key." group:"auth"`
	APIKeyPrefix        string      `name:"api-key-prefix" placeholder:"TEXT" help:"Prefix of the API keys of a new store, which keeps it. Default: assay." group:"auth" hidden:""`
	RateLimit           int         `default:"0" placeholder:"N" help:"Maximum REST requests a minute for each credential; 0 means unlimited (${default})." group:"limits"`

	Window         time.Duration `default:"720h" help:"Scoring window: telemetry that is older does not count (${default})." group:"scoring" hidden:""`
	WindowStep     time.Duration `default:"1h" help:"Step in which the scoring window advances (${default})." group:"scoring" hidden:""`
	TraceIdle      time.Duration `default:"30s" help:"Evaluate a trace when no span has arrived for this duration (${default})." group:"scoring" hidden:""`
	TraceMax       time.Duration `default:"10m" help:"Maximum age of a trace before it is evaluated (${default})." group:"scoring" hidden:""`
	TraceMemory    byteSize      `default:"128MiB" placeholder:"SIZE" help:"Memory for open traces (${default})." group:"limits"`
	ScoreInterval  time.Duration `default:"10s" help:"Interval between scoring runs (${default})." group:"scoring" hidden:""`
	CommitInterval time.Duration `default:"100ms" help:"Interval between commits; requests that arrive in one interval share a transaction (${default})." group:"limits" hidden:""`
	MaxServices    int           `default:"10000" placeholder:"N" help:"Maximum services of an organization (${default}). Telemetry of further services counts for assay_overflow." group:"limits"`
	MaxMetricNames int           `default:"2000" placeholder:"N" help:"Maximum metric names of a service (${default})." group:"limits"`

	MaxPackedBytes   byteSize `default:"16MiB" placeholder:"SIZE" help:"Maximum size of a compressed OTLP request (${default})." group:"limits" hidden:""`
	MaxUnpackedBytes byteSize `default:"64MiB" placeholder:"SIZE" help:"Maximum size of an uncompressed OTLP request (${default})." group:"limits" hidden:""`
	MaxConnections   int      `default:"2048" placeholder:"N" help:"Maximum connections to each listener (${default}). At the limit the server closes a connection of the organization that has most." group:"limits"`
	MaxIngestRate    byteSize `placeholder:"SIZE" help:"Maximum uncompressed OTLP bytes a second from each organization to one server, averaged over about ten seconds. Requests that fail count, too. Default: unlimited." group:"limits"`
	TLSCert          string   `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM for all listeners except --metrics-address; reloaded when it changes." group:"common"`
	TLSKey           string   `name:"tls-key" placeholder:"FILE" help:"Private key of --tls-cert in PEM." group:"common"`

	ShutdownTimeout time.Duration `default:"15s" help:"Timeout for finishing accepted requests on shutdown (${default})." group:"listeners" hidden:""`
	LogFormat       string        `default:"text" enum:"text,json" help:"Log format: ${enum} (${default})." group:"logging"`
	LogLevel        string        `default:"info" enum:"debug,info,warn,error" help:"Minimum log level: ${enum} (${default})." group:"common"`
	AccessLog       bool          `help:"Log every REST and OTLP request at level info." group:"logging"`
}

// defaultConfig returns the defaults of the flags.
func defaultConfig() (serverConfig, error) {
	var c serverConfig
	if err := kong.ApplyDefaults(&c); err != nil {
		return c, fmt.Errorf("apply the defaults of the flags: %w", err)
	}
	return c, nil
}

// maxSteps limits the rows of a service and rule in the store.
const maxSteps = 10_000

var keyPrefix = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,31}$`)

// problems returns all errors of the configuration. It reads the files of secrets and certificates.
func (c *serverConfig) problems() []error {
	ck := &check{problems: slices.Concat(c.storeConfig.problems(), c.metricsStoreConfig.problems(),
		c.summaryConfig.problems(), c.identityConfig.problems(), c.priceConfig.problems(), c.agentConfig.problems(), c.replicaConfig.problems(), c.dashboardConfig.problems())}
	for _, a := range []struct {
		flag, value string
		optional    bool
	}{
		{"http-address", c.HTTPAddress, false},
		{"otlp-grpc-address", c.OTLPGRPCAddress, false},
		{"otlp-http-address", c.OTLPHTTPAddress, false},
		{"metrics-address", c.MetricsAddress, true},
	} {
		if a.value != "" || !a.optional {
			ck.err(a.flag, checkAddress(a.value))
		}
	}
	ck.err("base-path", checkBasePath(c.BasePath))
	ck.err("cors-allowed-origins", checkOrigins(c.CORSAllowedOrigins))
	ck.err("public-url", checkPublicURL(c.PublicURL))

	ck.err("api-key-prefix", checkKeyPrefix(c.APIKeyPrefix))
	_, err := c.bootstrapKey()
	ck.add(err)
	ck.that(c.RateLimit >= 0, "--rate-limit: %d is negative", c.RateLimit)

	ck.that(c.WindowStep >= time.Second, "--window-step: %v is under 1s", c.WindowStep)
	if c.WindowStep >= time.Second {
		ck.that(c.Window >= c.WindowStep && c.Window%c.WindowStep == 0, "--window: %v is not a multiple of the step %v", c.Window, c.WindowStep)
		ck.that(c.Window/c.WindowStep <= maxSteps, "--window: more than %d steps", maxSteps)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"trace-idle", c.TraceIdle},
		{"score-interval", c.ScoreInterval},
		{"commit-interval", c.CommitInterval},
		{"shutdown-timeout", c.ShutdownTimeout},
	} {
		ck.that(d.value > 0, "--%s: %v is not a positive time", d.flag, d.value)
	}
	ck.that(c.TraceMax >= c.TraceIdle, "--trace-max: %v is under --trace-idle", c.TraceMax)
	ck.that(c.CommitInterval <= 5*time.Second, "--commit-interval: %v is over 5s; every request waits for a commit", c.CommitInterval)
	ck.that(c.MaxServices > 0, "--max-services: %d is not positive", c.MaxServices)
	ck.that(c.MaxMetricNames > 0, "--max-metric-names: %d is not positive", c.MaxMetricNames)
	ck.that(c.TraceMemory >= 1<<20, "--trace-memory: %v is under 1MiB", c.TraceMemory)
	ck.that(c.MaxPackedBytes > 0, "--max-packed-bytes: %v is not positive", c.MaxPackedBytes)
	ck.that(c.MaxUnpackedBytes > 0 && c.MaxUnpackedBytes <= 1<<30, "--max-unpacked-bytes: %v is not in the range from 1 to 1GiB", c.MaxUnpackedBytes)
	ck.that(c.MaxConnections > 0, "--max-connections: %d is not positive", c.MaxConnections)
	ck.that(c.MaxIngestRate >= 0, "--max-ingest-rate: %v is negative", c.MaxIngestRate)
	_, err = c.certificate(nil)
	ck.add(err)
	return ck.problems
}

// bootstrapKey returns the configured key of the first organization, or "" if none is configured.
func (c *serverConfig) bootstrapKey() (auth.Secret, error) {
	const flag = "bootstrap-api-key"
	key, err := readSecret(flag, c.BootstrapAPIKey, c.BootstrapAPIKeyFile)
	if err != nil || key == "" {
		return "", err
	}
	prefix, _, _ := strings.Cut(string(key), "_sk_") // the prefix of the store may not be known yet
	if _, ok := auth.ParseKey(prefix, key); !ok || !keyPrefix.MatchString(prefix) || c.APIKeyPrefix != "" && prefix != c.APIKeyPrefix {
		return "", errBootstrapKey(cmp.Or(c.APIKeyPrefix, assay.DefaultAPIKeyPrefix))
	}
	return key, nil
}

// defaultKeyPrefix returns the prefix of the keys of a new store without --api-key-prefix: that of the bootstrap key.
func (c *serverConfig) defaultKeyPrefix() (string, error) {
	key, err := c.bootstrapKey()
	if err != nil || key == "" {
		return assay.DefaultAPIKeyPrefix, err
	}
	prefix, _, _ := strings.Cut(string(key), "_sk_")
	return prefix, nil
}

func errBootstrapKey(prefix string) error {
	return fmt.Errorf("--bootstrap-api-key: the key does not have the form %s_sk_<6 letters or digits>_<32 hexadecimal digits>", prefix)
}

// checkKeyPrefix checks the value of --api-key-prefix.
func checkKeyPrefix(prefix string) error {
	if prefix != "" && !keyPrefix.MatchString(prefix) {
		return fmt.Errorf("%q does not consist of at most 32 letters, digits and hyphens that begin with a letter", prefix)
	}
	return nil
}

// certificate returns the certificate of the listeners, or nil for plain text.
func (c *serverConfig) certificate(logger *slog.Logger) (*tlsreload.Certificate, error) {
	if c.TLSCert == "" && c.TLSKey == "" {
		return nil, nil
	}
	if c.TLSCert == "" || c.TLSKey == "" {
		return nil, fmt.Errorf("--tls-cert and --tls-key belong together")
	}
	cert, err := tlsreload.Load(tlsreload.Config{CertFile: c.TLSCert, KeyFile: c.TLSKey, Now: wallClock, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	return cert, nil
}

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, such as 127.0.0.1:8080", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: %w", address, errPort)
	}
	return nil
}

// reservedPaths are the paths that the API's base path must not use.
var reservedPaths = append([]string{"/metrics", "/livez", "/readyz", "/.well-known"}, dashboardPaths...)

func checkBasePath(p string) error {
	if p == "/" || p == "" {
		return nil
	}
	trimmed := strings.TrimSuffix(p, "/")
	if !strings.HasPrefix(p, "/") || path.Clean(trimmed) != trimmed || strings.ContainsAny(p, "?#%{}\\ ") {
		return fmt.Errorf("%q is not a plain path, such as /api", p)
	}
	for _, r := range reservedPaths {
		if trimmed == r || strings.HasPrefix(trimmed, r+"/") {
			return fmt.Errorf("%s has handlers of its own", r)
		}
	}
	return nil
}

func checkPublicURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("not a URL of scheme and host, such as https://assay.example.com")
	case u.User != nil, u.RawQuery != "", u.Fragment != "", strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("has more than a scheme and a host")
	}
	return nil
}
