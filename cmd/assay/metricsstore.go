// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/logvolume"
)

// Metrics stores that are not a URL.
const (
	metricsEmbedded = "embedded"
	metricsNone     = "none"
)

// metricsStoreConfig holds the flags of the metrics store for log volume.
type metricsStoreConfig struct {
	MetricsStore             string            `default:"embedded" placeholder:"embedded|none|URL" help:"Source of log volume: embedded (the store), none, or the URL of a store with the Prometheus HTTP API (${default})."`
	MetricsStoreUser         string            `placeholder:"NAME" help:"User name for basic authentication at the metrics store."`
	MetricsStorePassword     auth.Secret       `placeholder:"TEXT" help:"Password for basic authentication at the metrics store."`
	MetricsStorePasswordFile string            `placeholder:"FILE" help:"File that contains the password."`
	MetricsStoreToken        auth.Secret       `placeholder:"TEXT" help:"Bearer token for the metrics store."`
	MetricsStoreTokenFile    string            `placeholder:"FILE" help:"File that contains the bearer token."`
	MetricsStoreHeaders      map[string]string `mapsep:"," placeholder:"NAME=VALUE,..." help:"Additional headers for the metrics store, such as X-Scope-OrgID=team."`
	MetricsStoreCA           string            `name:"metrics-store-ca" placeholder:"FILE" help:"CA certificates in PEM for the metrics store. Default: the system's."`
	MetricsStoreCert         string            `placeholder:"FILE" help:"Client certificate in PEM for the metrics store."`
	MetricsStoreKey          string            `placeholder:"FILE" help:"Private key of --metrics-store-cert in PEM."`
	MetricsStoreInsecure     bool              `help:"Skip verification of the certificate of the metrics store." hidden:""`
	MetricsStoreScrape       time.Duration     `name:"metrics-store-scrape-interval" default:"1m" help:"Scrape interval of the metrics store (${default})." hidden:""`
}

// remote reports whether the metrics store is another server.
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

// open returns the client of a remote metrics store. It does not connect.
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

// watchInterval is how often new organizations are added to /metrics. Their series start at zero, so that a scrape
// sees them before they increase.
const watchInterval = 10 * time.Second

// openLogVolume starts counting log records for /metrics and opens the reader of log volume.
func (s *server) openLogVolume(ctx context.Context) (err error) {
	s.records = logvolume.NewCounter(s.replica.Now)
	if err := s.own.Register(s.records); err != nil {
		return err
	}
	s.countOrganizations(ctx)
	switch {
	case s.cfg.remote():
		if s.remote, err = s.cfg.metricsStoreConfig.open(s.own.Transport, s.replica.Now); err != nil {
			return fmt.Errorf("--metrics-store: %w", err)
		}
		s.logVolume = s.remote
	case s.cfg.MetricsStore == metricsEmbedded:
		if err := s.importLogVolume(ctx); err != nil {
			return fmt.Errorf("import log volume: %w", err)
		}
		s.logVolume = logvolume.NewEmbedded(s.store, s.replica.Now)
	}
	return nil
}

// importLogVolume imports into the store the log volume that an earlier version kept in the data directory, and
// renames that directory. It does nothing if there is none.
func (s *server) importLogVolume(ctx context.Context) error {
	dir, now := filepath.Join(s.cfg.DataDir, metricsDir), s.replica.Now().UTC()
	database := filepath.Join(dir, "tsdb")
	if _, err := os.Stat(database); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	records, err := logvolume.ReadTSDB(ctx, database, now, s.logger)
	if err != nil {
		return err
	}
	for id, r := range records {
		if err := s.store.ImportLogRecords(ctx, id, r); err != nil && assay.ErrorCode(err) != assay.CodeNotFound {
			return err
		}
	}
	imported := dir + now.Format(".imported-20060102T150405Z")
	switch err := os.Rename(dir, imported); {
	case err == nil:
		s.logger.InfoContext(ctx, "imported the log volume of an earlier version into the store; its directory is no longer used", "directory", imported)
	case !errors.Is(err, fs.ErrNotExist): // otherwise another server has renamed it first
		s.logger.WarnContext(ctx, "the log volume of an earlier version is in the store, but its directory cannot be renamed; every start reads it again", "error", err)
	}
	return nil
}

// countOrganizations adds all organizations to /metrics.
func (s *server) countOrganizations(ctx context.Context) {
	ids, err := s.store.OrganizationIDs(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.logger.WarnContext(ctx, "failed to add new organizations to the metrics, will retry", "error", err)
		}
		return
	}
	s.records.Know(ids...)
}

// watchOrganizations adds new organizations to /metrics until ctx ends.
func (s *server) watchOrganizations(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.countOrganizations(ctx)
		}
	}
}

// checkServiceURL validates the URL of an upstream server. Its errors do not contain the URL, which may contain a
// password.
func checkServiceURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("not a URL that begins with https:// or http://")
	case u.User != nil:
		return fmt.Errorf("the URL must not contain credentials")
	case u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(raw, "?"):
		return fmt.Errorf("the URL has a query or a fragment")
	}
	return nil
}
