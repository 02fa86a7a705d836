// SPDX-License-Identifier: Apache-2.0

package tlsreload

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// makePair returns a certificate with a serial number and a remaining lifetime.
func makePair(t *testing.T, serial int64, left time.Duration) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// files are the files of a certificate, with the log of its Certificate.
type files struct {
	cert, key string
	log       bytes.Buffer
	mu        sync.Mutex
}

func newFiles(t *testing.T, p pair) *files {
	dir := t.TempDir()
	f := &files{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	f.write(t, p)
	return f
}

func (f *files) write(t *testing.T, p pair) {
	require.NoError(t, os.WriteFile(f.cert, p.cert, 0o600))
	require.NoError(t, os.WriteFile(f.key, p.key, 0o600))
}

func (f *files) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(b)
}

// logged returns the number of log records that contain a text.
func (f *files) logged(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Count(f.log.String(), text)
}

func (f *files) load(t *testing.T) *Certificate {
	t.Helper()
	c, err := Load(Config{CertFile: f.cert, KeyFile: f.key, Logger: slog.New(slog.NewTextHandler(f, nil))})
	require.NoError(t, err)
	return c
}

func serial(t *testing.T, c *Certificate) int64 {
	t.Helper()
	cert, err := c.TLS().GetCertificate(nil)
	require.NoError(t, err)
	return cert.Leaf.SerialNumber.Int64()
}

const year = 365 * 24 * time.Hour

func TestLoadRejectsMismatch(t *testing.T) {
	a, b := makePair(t, 1, year), makePair(t, 2, year)
	f := newFiles(t, pair{a.cert, b.key})
	_, err := Load(Config{CertFile: f.cert, KeyFile: f.key})
	require.ErrorContains(t, err, f.cert)
	_, err = Load(Config{CertFile: f.cert, KeyFile: f.cert + ".not"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "private key")
	require.NoError(t, os.WriteFile(f.key, make([]byte, maxFile+1), 0o600))
	_, err = Load(Config{CertFile: f.cert, KeyFile: f.key})
	require.ErrorContains(t, err, "exceeds")
}

func TestReload(t *testing.T) {
	first, second := makePair(t, 1, year), makePair(t, 2, year)
	f := newFiles(t, first)
	c := f.load(t)
	steps := []struct {
		name     string
		change   func()
		serial   int64
		renewals int
		errors   int
	}{
		{"nothing", func() {}, 1, 0, 0},
		{"half of a pair", func() { require.NoError(t, os.WriteFile(f.cert, second.cert, 0o600)) }, 1, 0, 1},
		{"still half", func() {}, 1, 0, 1},
		{"the other half", func() { require.NoError(t, os.WriteFile(f.key, second.key, 0o600)) }, 2, 1, 1},
		{"gone", func() { require.NoError(t, os.Remove(f.key)) }, 2, 1, 2},
		{"still missing", func() {}, 2, 1, 2},
		{"restored", func() { f.write(t, second) }, 2, 1, 2},
		{"missing again", func() { require.NoError(t, os.Remove(f.key)) }, 2, 1, 3},
		{"emptied", func() { f.write(t, pair{}) }, 2, 1, 4},
		{"first pair again", func() { f.write(t, first) }, 1, 2, 4},
	}
	for _, s := range steps {
		s.change()
		c.Reload(t.Context())
		require.Equal(t, s.serial, serial(t, c), s.name)
		require.Equal(t, s.renewals, f.logged("reloaded the TLS certificate"), s.name)
		require.Equal(t, s.errors, f.logged("failed to reload"), s.name)
	}
	require.NotContains(t, f.log.String(), "PRIVATE")
}

// TestSymbolicLinks swaps the directory of both files at once, as Kubernetes does with a Secret volume. Size and time
// of the files are unchanged.
func TestSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	at := time.Now().Add(-time.Hour)
	for i, name := range []string{"..1", "..2"} {
		p := makePair(t, int64(i+1), year)
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		for file, text := range map[string][]byte{"tls.crt": p.cert, "tls.key": p.key} {
			path := filepath.Join(dir, name, file)
			require.NoError(t, os.WriteFile(path, text, 0o600))
			require.NoError(t, os.Chtimes(path, at, at))
		}
	}
	require.NoError(t, os.Symlink("..1", filepath.Join(dir, "..data")))
	f := &files{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	for _, path := range []string{f.cert, f.key} {
		require.NoError(t, os.Symlink(filepath.Join("..data", filepath.Base(path)), path))
	}
	c := f.load(t)
	require.EqualValues(t, 1, serial(t, c))
	require.NoError(t, os.Symlink("..2", filepath.Join(dir, "..new")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	c.Reload(t.Context())
	require.EqualValues(t, 2, serial(t, c))
}

// TestNamedPipe: a file that is a named pipe without a writer delays nothing.
func TestNamedPipe(t *testing.T) {
	f := newFiles(t, makePair(t, 1, year))
	c := f.load(t)
	require.NoError(t, os.Remove(f.cert))
	require.NoError(t, exec.Command("mkfifo", f.cert).Run())
	c.Reload(t.Context())
	require.Equal(t, 1, f.logged("is not a regular file"))
	require.NoError(t, os.Remove(f.cert))
	f.write(t, makePair(t, 2, year))
	c.Reload(t.Context())
	require.EqualValues(t, 2, serial(t, c))
}

// TestRun lets days pass: changes take effect after the interval, and the expiry is logged once a day.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t, makePair(t, 1, WarnBefore+time.Hour))
		c := f.load(t)
		c.cfg.Interval = 10 * time.Minute // every few seconds would make the test slow
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		wait(30 * time.Minute)
		require.Zero(t, f.logged("expires soon"))
		wait(time.Hour)
		require.Equal(t, 1, f.logged("expires soon"))
		wait(48 * time.Hour)
		require.Equal(t, 3, f.logged("expires soon"))
		require.Zero(t, f.logged("has expired"))
		wait(WarnBefore - 48*time.Hour)
		require.Equal(t, 1, f.logged("level=ERROR"))
		require.Equal(t, 1, f.logged("has expired"))

		f.write(t, makePair(t, 2, WarnBefore-time.Hour))
		require.EqualValues(t, 1, serial(t, c))
		before := f.logged("expires soon")
		wait(20 * time.Minute)
		require.EqualValues(t, 2, serial(t, c))
		require.Equal(t, before+1, f.logged("expires soon"), "a new certificate gets a new warning")
		require.Equal(t, WarnBefore-time.Hour, c.NotAfter().Sub(time.Now().Add(-20*time.Minute)).Round(time.Minute))
		cancel()
		running.Wait()
	})
}

// TestConnections reloads a certificate while connections begin. Each connection gets one of the two certificates,
// early ones the old and late ones the new, and none uses less than TLS 1.2.
func TestConnections(t *testing.T) {
	first, second := makePair(t, 1, year), makePair(t, 2, year)
	f := newFiles(t, first)
	c := f.load(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.TLS())
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn) // only the handshake matters
			})
		}
	})
	defer serving.Wait()
	defer l.Close()
	dial := func(version uint16) (int64, error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(first.cert)
		pool.AppendCertsFromPEM(second.cert)
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
	}
	_, err = dial(tls.VersionTLS11)
	require.Error(t, err)
	got, err := dial(tls.VersionTLS12)
	require.NoError(t, err)
	require.EqualValues(t, 1, got)

	var dialing sync.WaitGroup
	for range 4 {
		dialing.Go(func() {
			for range 10 {
				if _, err := dial(tls.VersionTLS13); err != nil {
					t.Errorf("dial: %v", err)
				}
			}
		})
	}
	f.write(t, second)
	c.Reload(t.Context())
	dialing.Wait()
	got, err = dial(tls.VersionTLS13)
	require.NoError(t, err)
	require.EqualValues(t, 2, got)
}
