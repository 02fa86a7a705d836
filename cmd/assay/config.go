// SPDX-License-Identifier: Apache-2.0

package main

import (
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

	"assay/internal/auth"
	"assay/internal/tlsreload"
)

// serverConfig is the configuration of a server, as flags.
type serverConfig struct {
	storeConfig
	metricsStoreConfig
	summaryConfig
	identityConfig
	priceConfig
	agentConfig
	replicaConfig
	dashboardConfig

	HTTPAddress     string `name:"http-address" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the dashboard, the REST API, the probes and /metrics listen (${default})."`
	OTLPGRPCAddress string `name:"otlp-grpc-address" default:"127.0.0.1:4317" placeholder:"HOST:PORT" help:"Where OTLP/gRPC listens (${default})."`
	OTLPHTTPAddress string `name:"otlp-http-address" default:"127.0.0.1:4318" placeholder:"HOST:PORT" help:"Where OTLP/HTTP listens (${default})."`
	MetricsAddress  string `placeholder:"HOST:PORT" help:"Listener for /metrics alone, without credential; the REST listener has no /metrics then. Default: the REST listener, where /metrics needs a key of scope read beyond loopback."`
	BasePath        string `default:"/api" placeholder:"PATH" help:"Path of the REST API's root (${default})."`
	PublicURL       string `name:"public-url" placeholder:"URL" help:"Where clients reach the server, scheme and host."`

	BootstrapAPIKey     auth.Secret `name:"bootstrap-api-key" placeholder:"KEY" help:"API key of the first organization, made when the store is empty. Without it a key is made, and printed on a terminal, else written to the file bootstrap-key in the data directory."`
	BootstrapAPIKeyFile string      `name:"bootstrap-api-key-file" placeholder:"FILE" help:"File that holds the bootstrap API key."`
	APIKeyPrefix        string      `name:"api-key-prefix" default:"assay" placeholder:"TEXT" help:"How API keys begin (${default})."`
	RateLimit           int         `default:"0" placeholder:"N" help:"REST requests a minute for each credential; 0 means no limit."`

	Window         time.Duration `default:"720h" help:"What a score looks back on (${default})."`
	WindowStep     time.Duration `default:"1h" help:"The window moves in such steps (${default})."`
	TraceIdle      time.Duration `default:"30s" help:"A trace is judged when no span arrived for so long (${default})."`
	TraceMax       time.Duration `default:"10m" help:"Or so long after its first span (${default})."`
	TraceMemory    byteSize      `default:"128MiB" placeholder:"SIZE" help:"Memory for open traces (${default})."`
	ScoreInterval  time.Duration `default:"10s" help:"Time between rounds of scoring (${default})."`
	CommitInterval time.Duration `default:"100ms" help:"Requests that arrive within it are committed together (${default})."`
	MaxServices    int           `default:"10000" placeholder:"N" help:"Services of an organization (${default}). Telemetry of further ones counts for assay_overflow."`
	MaxMetricNames int           `default:"2000" placeholder:"N" help:"Metric names of a service (${default})."`

	MaxPackedBytes   byteSize `default:"16MiB" placeholder:"SIZE" help:"Size of a compressed OTLP request (${default})."`
	MaxUnpackedBytes byteSize `default:"64MiB" placeholder:"SIZE" help:"Size of an uncompressed OTLP request (${default})."`
	MaxConnections   int      `default:"2048" placeholder:"N" help:"Maximum number of connections to each listener (${default}). At the limit a new connection closes one of the organization that has most."`
	MaxIngestRate    byteSize `placeholder:"SIZE" help:"Uncompressed OTLP bytes that each organization may send a second to one server, on average over some ten seconds; past them it is asked to wait. Default: no limit."`
	TLSCert          string   `name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM, for all listeners but --metrics-address. Read again when it changes."`
	TLSKey           string   `name:"tls-key" placeholder:"FILE" help:"Its private key, PEM."`

	ShutdownTimeout time.Duration `default:"15s" help:"Time to finish what was accepted before the end (${default})."`
	LogFormat       string        `default:"text" enum:"text,json" help:"Format of the log: ${enum} (${default})."`
	LogLevel        string        `default:"info" enum:"debug,info,warn,error" help:"Least level of the log: ${enum} (${default})."`
	AccessLog       bool          `help:"Log every request, of the REST API and OTLP, at level info."`
}

// defaultConfig returns the defaults of the flags.
func defaultConfig() (serverConfig, error) {
	var c serverConfig
	if err := kong.ApplyDefaults(&c); err != nil {
		return c, fmt.Errorf("apply the defaults of the flags: %w", err)
	}
	return c, nil
}

// maxSteps bounds the rows that a service and rule can have in the store.
const maxSteps = 10_000

var keyPrefix = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,31}$`)

// problems returns everything that is wrong with the configuration. It reads the
// files of secrets and certificates.
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
	ck.err("public-url", checkPublicURL(c.PublicURL))

	ck.that(keyPrefix.MatchString(c.APIKeyPrefix), "--api-key-prefix: %q does not consist of at most 32 letters, digits and hyphens that begin with a letter", c.APIKeyPrefix)
	if _, err := c.bootstrapKey(); err != nil {
		ck.add(err)
	}
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
	ck.that(c.CommitInterval <= 5*time.Second, "--commit-interval: %v is over 5s, and every sender waits so long", c.CommitInterval)
	ck.that(c.MaxServices > 0, "--max-services: %d is not positive", c.MaxServices)
	ck.that(c.MaxMetricNames > 0, "--max-metric-names: %d is not positive", c.MaxMetricNames)
	ck.that(c.TraceMemory >= 1<<20, "--trace-memory: %v is under 1MiB", c.TraceMemory)
	ck.that(c.MaxPackedBytes > 0, "--max-packed-bytes: %v is not positive", c.MaxPackedBytes)
	ck.that(c.MaxUnpackedBytes > 0 && c.MaxUnpackedBytes <= 1<<30, "--max-unpacked-bytes: %v is not in the range from 1 to 1GiB", c.MaxUnpackedBytes)
	ck.that(c.MaxConnections > 0, "--max-connections: %d is not positive", c.MaxConnections)
	ck.that(c.MaxIngestRate >= 0, "--max-ingest-rate: %v is negative", c.MaxIngestRate)
	if _, err := c.certificate(nil); err != nil {
		ck.add(err)
	}
	return ck.problems
}

// bootstrapKey returns the key of the first organization, "" when none is given.
func (c *serverConfig) bootstrapKey() (auth.Secret, error) {
	const flag = "bootstrap-api-key"
	key, err := readSecret(flag, c.BootstrapAPIKey, c.BootstrapAPIKeyFile)
	if err != nil || key == "" {
		return "", err
	}
	if _, ok := auth.ParseKey(c.APIKeyPrefix, key); !ok {
		return "", fmt.Errorf("--%s: the key does not have the form %s_sk_<6 letters or digits>_<32 hexadecimal digits>", flag, c.APIKeyPrefix)
	}
	return key, nil
}

// certificate returns the certificate of the listeners, nil for plain text.
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
		return fmt.Errorf("%q is not HOST:PORT", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: %w", address, errPort)
	}
	return nil
}

// reservedPaths are served beside the API.
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
			return fmt.Errorf("%s serves something else", r)
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
		return fmt.Errorf("more than scheme and host")
	}
	return nil
}
