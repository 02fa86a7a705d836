// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/logvolume"
)

// The metrics stores that are not a URL.
const (
	metricsEmbedded = "embedded"
	metricsNone     = "none"
)

// metricsStoreConfig says where log volume is kept, as flags.
type metricsStoreConfig struct {
	MetricsStore             string            `default:"embedded" placeholder:"embedded|none|URL" help:"Where log volume is read from: embedded, none, or the URL of a store that speaks the Prometheus HTTP API (${default})."`
	MetricsStoreUser         string            `placeholder:"NAME" help:"Name for basic authentication at the metrics store."`
	MetricsStorePassword     auth.Secret       `placeholder:"TEXT" help:"Password for basic authentication at the metrics store."`
	MetricsStorePasswordFile string            `placeholder:"FILE" help:"File that holds the password."`
	MetricsStoreToken        auth.Secret       `placeholder:"TEXT" help:"Bearer token for the metrics store."`
	MetricsStoreTokenFile    string            `placeholder:"FILE" help:"File that holds the bearer token."`
	MetricsStoreHeaders      map[string]string `mapsep:"," placeholder:"NAME=VALUE,..." help:"Further headers for the metrics store, such as X-Scope-OrgID=team."`
	MetricsStoreCA           string            `name:"metrics-store-ca" placeholder:"FILE" help:"Certificates that the metrics store's is checked against, PEM; default those of the system."`
	MetricsStoreCert         string            `placeholder:"FILE" help:"Client certificate for the metrics store, PEM."`
	MetricsStoreKey          string            `placeholder:"FILE" help:"Its private key, PEM."`
	MetricsStoreInsecure     bool              `help:"Do not check the metrics store's certificate."`
	MetricsStoreScrape       time.Duration     `name:"metrics-store-scrape-interval" default:"1m" help:"How often the metrics store scrapes (${default})."`
}

// remote tells whether the metrics store is another server.
func (c *metricsStoreConfig) remote() bool {
	return c.MetricsStore != metricsEmbedded && c.MetricsStore != metricsNone
}

func (c *metricsStoreConfig) problems() []error {
	var ck check
	if !c.remote() {
		return nil
	}
	ck.err("metrics-store", checkServiceURL(c.MetricsStore))
	password, err := readSecret("metrics-store-password", c.MetricsStorePassword, c.MetricsStorePasswordFile)
	ck.add(err)
	token, err := readSecret("metrics-store-token", c.MetricsStoreToken, c.MetricsStoreTokenFile)
	ck.add(err)
	ck.that(token == "" || c.MetricsStoreUser == "" && password == "", "--metrics-store-user and --metrics-store-token exclude each other")
	ck.that(password == "" || c.MetricsStoreUser != "", "--metrics-store-password needs --metrics-store-user")
	ck.that(c.MetricsStoreScrape > 0, "--metrics-store-scrape-interval: %v is not a positive time", c.MetricsStoreScrape)
	ck.that((c.MetricsStoreCert == "") == (c.MetricsStoreKey == ""), "--metrics-store-cert and --metrics-store-key belong together")
	return ck.problems
}

// open returns who asks a remote metrics store. It does not connect.
func (c *metricsStoreConfig) open(wrap func(http.RoundTripper) http.RoundTripper, now func() time.Time) (*logvolume.Remote, error) {
	return logvolume.NewRemote(logvolume.RemoteConfig{
		URL:                c.MetricsStore,
		Username:           c.MetricsStoreUser,
		Password:           string(c.MetricsStorePassword),
		PasswordFile:       c.MetricsStorePasswordFile,
		BearerToken:        string(c.MetricsStoreToken),
		BearerTokenFile:    c.MetricsStoreTokenFile,
		Headers:            c.MetricsStoreHeaders,
		CAFile:             c.MetricsStoreCA,
		CertFile:           c.MetricsStoreCert,
		KeyFile:            c.MetricsStoreKey,
		InsecureSkipVerify: c.MetricsStoreInsecure,
		ScrapeInterval:     c.MetricsStoreScrape,
		Wrap:               wrap,
		Now:                now,
	})
}

// metricsPath is where the embedded metrics store is.
func (c *storeConfig) metricsPath() string { return filepath.Join(c.DataDir, metricsDir) }

// watchInterval is how soon a new organization stands in /metrics, with zeros, so that
// a scrape sees the series before they begin to grow, and how soon another replica is
// seen.
const watchInterval = 10 * time.Second

// openLogVolume begins to count log records, and to keep when they came unless
// another server does.
func (s *server) openLogVolume(ctx context.Context) (err error) {
	s.records = logvolume.NewCounter(s.replica.Now)
	if err := s.own.Register(s.records); err != nil {
		return err
	}
	s.know(ctx)
	switch {
	case s.cfg.remote():
		s.remote, err = s.cfg.metricsStoreConfig.open(s.own.Transport, s.replica.Now)
	case s.cfg.MetricsStore == metricsEmbedded:
		s.embedded, err = logvolume.OpenEmbedded(ctx, logvolume.EmbeddedConfig{Dir: s.cfg.metricsPath(), Store: s.store, Now: s.replica.Now, Logger: s.logger})
	}
	if err != nil {
		return fmt.Errorf("--metrics-store: %w", err)
	}
	return nil
}

// logVolume returns who answers for log volume, nil when nobody does.
func (s *server) logVolume() assay.LogVolumeReader {
	switch {
	case s.embedded != nil:
		return s.embedded
	case s.remote != nil:
		return s.remote
	default:
		return nil
	}
}

// committed counts the log records of a commit before its requests are acknowledged.
func (s *server) committed(records map[string]assay.SeverityCounts) {
	s.records.Add(records)
	if s.embedded != nil {
		s.embedded.Add(records)
	}
}

// know puts all organizations into /metrics.
func (s *server) know(ctx context.Context) {
	ids, err := s.store.OrganizationIDs(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.logger.WarnContext(ctx, "new organizations are not in the metrics yet", "error", err)
		}
		return
	}
	s.records.Know(ids...)
}

// warnOfReplicas tells when other replicas came to share the store of one with an
// embedded metrics store. It returns whether there are any; others is what it returned
// before.
func (s *server) warnOfReplicas(ctx context.Context, others bool) bool {
	n := s.replica.Replicas()
	if n > 1 && !others && s.embedded != nil {
		s.logger.WarnContext(ctx, "the embedded metrics store knows the log records of this replica alone; several need --metrics-store with the URL of one that scrapes them all", "replicas", n)
	}
	return n > 1
}

// watchLogVolume goes on looking for new organizations and for other replicas until
// ctx ends.
func (s *server) watchLogVolume(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	others := s.warnOfReplicas(ctx, false)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.know(ctx)
			others = s.warnOfReplicas(ctx, others)
		}
	}
}

// checkServiceURL checks the URL of a server that assay asks. No error shows it: it
// may hold a password.
func checkServiceURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("not a URL such as https://metrics.example.com/prometheus")
	case u.User != nil:
		return fmt.Errorf("credentials do not belong in the URL")
	case u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(raw, "?"):
		return fmt.Errorf("the URL has a query or a fragment")
	}
	return nil
}
