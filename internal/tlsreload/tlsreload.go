// SPDX-License-Identifier: Apache-2.0

package tlsreload

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultInterval is how often Run reads the files.
	DefaultInterval = 5 * time.Second
	// WarnBefore is how long before the end of a certificate the log warns of it.
	WarnBefore = 30 * 24 * time.Hour

	warnInterval = 24 * time.Hour // between warnings of the same end
	maxFile      = 1 << 20        // bytes
)

// Config says where a certificate is. The files are required.
type Config struct {
	CertFile string        // certificate chain, PEM, the leaf first
	KeyFile  string        // its private key, PEM
	Interval time.Duration // default DefaultInterval
	Now      func() time.Time
	Logger   *slog.Logger
}

// Certificate is a certificate that follows its files. It may be used concurrently.
type Certificate struct {
	cfg     Config
	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // guards what follows
	seen   pair       // what was read last
	unfit  bool       // seen could not be used
	failed string     // why the last reading changed nothing, "" when it did not fail
	warned time.Time  // when the log was last told of the end
}

// pair is the content of the two files.
type pair struct{ cert, key []byte }

// equal compares the content, for a change can keep size and time of a file, and a
// symbolic link can lead elsewhere.
func (p pair) equal(q pair) bool { return bytes.Equal(p.cert, q.cert) && bytes.Equal(p.key, q.key) }

// Load reads a certificate. A pair that cannot be used is an error.
func Load(cfg Config) (*Certificate, error) {
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
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

// TLS returns a configuration for servers, of TLS 1.2 and newer, whose connections
// begin with the certificate as it is then.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// NotAfter returns when the certificate ends.
func (c *Certificate) NotAfter() time.Time { return c.current.Load().Leaf.NotAfter }

// Run follows the files until ctx ends. The log has what changed, what could not be
// used, once for each reason, and from 30 days before the certificate's end a warning
// each day.
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

// Reload reads the files now. A pair that cannot be used leaves the certificate as
// it is.
func (c *Certificate) Reload(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.read()
	if err == nil && p.equal(c.seen) {
		if !c.unfit {
			c.failed = "" // of a reading in between
		}
		return
	}
	if err == nil {
		err = c.use(p)
		c.seen, c.unfit = p, err != nil
	}
	if err == nil {
		c.failed, c.warned = "", time.Time{}
		c.cfg.Logger.InfoContext(ctx, "the TLS certificate was renewed", "file", c.cfg.CertFile, "not_after", c.NotAfter())
	} else if text := err.Error(); text != c.failed {
		c.failed = text
		c.cfg.Logger.ErrorContext(ctx, "the TLS certificate could not be renewed; the former one is served", "error", err, "not_after", c.NotAfter())
	}
}

// warn logs that the certificate ends soon.
func (c *Certificate) warn(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, end := c.cfg.Now(), c.NotAfter()
	if end.Sub(now) > WarnBefore || now.Sub(c.warned) < warnInterval {
		return
	}
	c.warned = now
	if now.Before(end) {
		c.cfg.Logger.WarnContext(ctx, "the TLS certificate ends soon", "file", c.cfg.CertFile, "not_after", end)
	} else {
		c.cfg.Logger.ErrorContext(ctx, "the TLS certificate has ended, and clients refuse it", "file", c.cfg.CertFile, "not_after", end)
	}
}

func (c *Certificate) read() (p pair, err error) {
	if p.cert, err = readFile(c.cfg.CertFile); err != nil {
		return p, fmt.Errorf("read the certificate: %w", err)
	}
	if p.key, err = readFile(c.cfg.KeyFile); err != nil {
		return p, fmt.Errorf("read the private key: %w", err)
	}
	return p, nil
}

// readFile reads a file as it is at one moment: the path is followed once.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, nil
}

// use has a pair served.
func (c *Certificate) use(p pair) error {
	cert, err := tls.X509KeyPair(p.cert, p.key) // its errors name no content
	if err != nil {
		return fmt.Errorf("%s and %s are no certificate and its key: %w", c.cfg.CertFile, c.cfg.KeyFile, err)
	}
	c.current.Store(&cert)
	return nil
}
