// SPDX-License-Identifier: Apache-2.0

package tlsreload

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// DefaultInterval is the interval at which Run reads the files.
	DefaultInterval = 5 * time.Second
	// WarnBefore is the time before the expiry of a certificate at which warnings start.
	WarnBefore = 30 * 24 * time.Hour

	warnInterval = 24 * time.Hour // between warnings about the same expiry
	maxFile      = 1 << 20        // bytes
)

// Config names the files of a certificate. Both are required.
type Config struct {
	CertFile string        // certificate chain, PEM, leaf first
	KeyFile  string        // private key, PEM
	Interval time.Duration // default DefaultInterval
	Now      func() time.Time
	Logger   *slog.Logger
}

// Certificate is a certificate that is reloaded from its files. It is safe for concurrent use.
type Certificate struct {
	cfg     Config
	current atomic.Pointer[tls.Certificate]

	mu      sync.Mutex // guards the fields below
	seen    pair       // last content read
	invalid bool       // seen is not a valid pair
	failed  string     // error of the last reload, "" if it succeeded
	warned  time.Time  // time of the last warning about the expiry
}

// pair is the content of the two files.
type pair struct{ cert, key []byte }

// equal compares the contents. A change may preserve the size and time of a file, and a symbolic link may change its
// target.
func (p pair) equal(q pair) bool { return bytes.Equal(p.cert, q.cert) && bytes.Equal(p.key, q.key) }

// Load reads a certificate. It returns an error for an invalid pair.
func Load(cfg Config) (*Certificate, error) {
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	c := &Certificate{cfg: cfg}
	p, err := c.read()
	if err != nil {
		return nil, err
	}
	if err := c.use(p); err != nil {
		return nil, err
	}
	c.seen = p
	return c, nil
}

// TLS returns a server configuration for TLS 1.2 and newer. New connections use the current certificate.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// NotAfter returns the expiry of the certificate.
func (c *Certificate) NotAfter() time.Time { return c.current.Load().Leaf.NotAfter }

// Run reloads the certificate until ctx ends. It logs changes, each distinct error once, and, from 30 days before the
// expiry, a warning per day.
func (c *Certificate) Run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Interval)
	defer ticker.Stop()
	for {
		c.warn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.Reload(ctx)
		}
	}
}

// Reload reads the files now. An invalid pair leaves the certificate unchanged.
func (c *Certificate) Reload(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.read()
	if err == nil && p.equal(c.seen) {
		if !c.invalid {
			c.failed = "" // of an earlier reload
		}
		return
	}
	if err == nil {
		err = c.use(p)
		c.seen, c.invalid = p, err != nil
	}
	if err == nil {
		c.failed, c.warned = "", time.Time{}
		c.cfg.Logger.InfoContext(ctx, "reloaded the TLS certificate", "file", c.cfg.CertFile, "not_after", c.NotAfter())
	} else if text := err.Error(); text != c.failed {
		c.failed = text
		c.cfg.Logger.ErrorContext(ctx, "failed to reload the TLS certificate, serving the previous one", "error", err, "not_after", c.NotAfter())
	}
}

// warn logs that the certificate expires soon.
func (c *Certificate) warn(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, end := c.cfg.Now(), c.NotAfter()
	if end.Sub(now) > WarnBefore || now.Sub(c.warned) < warnInterval {
		return
	}
	c.warned = now
	if now.Before(end) {
		c.cfg.Logger.WarnContext(ctx, "the TLS certificate expires soon", "file", c.cfg.CertFile, "not_after", end)
	} else {
		c.cfg.Logger.ErrorContext(ctx, "the TLS certificate has expired", "file", c.cfg.CertFile, "not_after", end)
	}
}

func (c *Certificate) read() (p pair, err error) {
	if p.cert, err = readFile(c.cfg.CertFile); err != nil {
		return p, fmt.Errorf("read certificate: %w", err)
	}
	if p.key, err = readFile(c.cfg.KeyFile); err != nil {
		return p, fmt.Errorf("read private key: %w", err)
	}
	return p, nil
}

// readFile reads a file consistently: the path is resolved once. It does not wait for the writer of a named pipe.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cmp.Or(err, fmt.Errorf("%s is not a regular file", path)), f.Close())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s exceeds %d bytes", path, maxFile)
	}
	return text, nil
}

// use makes a pair the current certificate.
func (c *Certificate) use(p pair) error {
	cert, err := tls.X509KeyPair(p.cert, p.key) // its errors contain no content
	if err != nil {
		return fmt.Errorf("invalid certificate %s with key %s: %w", c.cfg.CertFile, c.cfg.KeyFile, err)
	}
	c.current.Store(&cert)
	return nil
}
