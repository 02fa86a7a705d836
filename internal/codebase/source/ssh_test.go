// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/sandbox"
	"assay/internal/codebase/source/gittest"
)

// sshServer is OpenSSH's server on loopback for the user that runs the tests. It has one process for a connection.
type sshServer struct {
	t       *testing.T
	dir     string // of its configuration and keys
	root    string // of the repositories
	port    string
	allowed string // private key of the client that it accepts
	known   string // line of known_hosts with its key

	mu  sync.Mutex
	log bytes.Buffer // of all connections
}

// startSSH starts a server that ends with the test.
func startSSH(t *testing.T) *sshServer {
	t.Helper()
	path := os.Getenv("PATH")
	t.Setenv("PATH", path+":/usr/sbin:/sbin") // Debian keeps sshd off the PATH of users
	program, err := sandbox.Executable("sshd")
	require.NoError(t, err, "install openssh-server")
	t.Setenv("PATH", path)
	if os.Getuid() == 0 {
		require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // which sshd needs; a service manager makes it
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	s := &sshServer{t: t, dir: t.TempDir(), root: t.TempDir(), port: port}
	s.allowed = s.key("client")
	s.newHostKey()
	authorized, err := os.ReadFile(filepath.Join(s.dir, "client.pub"))
	require.NoError(t, err)
	s.write("authorized_keys", string(authorized))
	s.write("sshd_config", "HostKey "+s.dir+"/host\nAuthorizedKeysFile "+s.dir+"/authorized_keys\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nPidFile none\nLogLevel VERBOSE\n")
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed
			}
			connections.Go(func() { s.serve(program, c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		connections.Wait()
		if t.Failed() {
			t.Logf("log of the SSH server:\n%s", s.log.String())
		}
	})
	return s
}

func (s *sshServer) serve(program string, c *net.TCPConn) {
	file, err := c.File()
	_ = c.Close()
	if err != nil {
		return
	}
	defer file.Close()
	var log bytes.Buffer
	cmd := exec.Command(program, "-i", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &log
	err = cmd.Run() // fails with each client that it rejects, and with each that disconnects
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.log, "%s%v\n", &log, err)
}

// key makes a key pair and returns the private key.
func (s *sshServer) key(name string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.RemoveAll(path))
	out, err := exec.CommandContext(s.t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	text, err := os.ReadFile(path)
	require.NoError(s.t, err)
	return string(text)
}

func (s *sshServer) newHostKey() {
	s.t.Helper()
	s.key("host")
	public, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	require.NoError(s.t, err)
	fields := strings.Fields(string(public))
	s.known = "[example.com]:" + s.port + " " + fields[0] + " " + fields[1] + "\n"
}

func (s *sshServer) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}

// url returns the URL of a repository for newSources.
func (s *sshServer) url(name string) string {
	u, err := user.Current()
	require.NoError(s.t, err)
	return "ssh://" + u.Username + "@example.com:" + s.port + filepath.Join(s.root, name)
}

func TestSSH(t *testing.T) {
	server := startSSH(t)
	dir := newRepository(t, filepath.Join(server.root, "shop.git"), map[string]string{"a/main.go": "package main\n"})
	head := gittest.Git(t, dir, "rev-parse", "HEAD")
	s := newSources(t, func(*Config) {})
	r := &Request{Kind: KindGit, URL: server.url("shop.git"), Credential: Credential{SSHKey: server.allowed}}

	// The host's key is that of the first connection, or the one of the request.
	c, err := s.Connect(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, server.known, c.Credential.KnownHosts)
	require.Equal(t, "main", c.Repositories[0].DefaultBranch)
	named := *r
	named.Credential.KnownHosts = "other.example.com ssh-ed25519 AAAA\n" + server.known
	c, err = s.Connect(t.Context(), &named)
	require.NoError(t, err)
	require.Equal(t, named.Credential, c.Credential)

	i := &assay.Installation{ID: "i", Provider: KindGit, Write: true}
	i.Credential, err = s.Seal(i.ID, c.Credential)
	require.NoError(t, err)
	got, err := s.Checkout(t.Context(), i, c.Repositories[0], Want{}, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, head, got.Commit)
	text, err := os.ReadFile(filepath.Join(got.Dir, "a", "main.go"))
	require.NoError(t, err)
	require.Equal(t, "package main\n", string(text))

	p, err := s.Publish(t.Context(), i, c.Repositories[0], newChange(head), t.TempDir())
	require.NoError(t, err)
	require.Equal(t, p.Commit, gittest.Git(t, dir, "rev-parse", "assay/fix-1"))

	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"another key": {func(r *Request) { r.Credential.SSHKey = server.key("stranger") }, "rejected the SSH key"},
		"no key": {func(r *Request) {
			r.Credential.SSHKey = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----"
		}, "rejected the SSH key"},
		"a locked key":     {func(r *Request) { r.Credential.SSHKey = server.locked() }, "rejected the SSH key"},
		"an unknown host":  {func(r *Request) { r.Credential.KnownHosts = "other.example.com ssh-ed25519 AAAA\n" }, "the SSH key of the host is not the known one"},
		"no repository":    {func(r *Request) { r.URL = server.url("none.git") }, "the repository does not exist"},
		"no server":        {func(r *Request) { r.URL = strings.Replace(r.URL, server.port, "1", 1) }, "the source host does not accept connections"},
		"an option as key": {func(r *Request) { r.Credential.SSHKey = "-oProxyCommand=id" }, "ssh_key must"},
	} {
		bad := *r
		c.change(&bad)
		_, err := s.Connect(t.Context(), &bad)
		require.Contains(t, detail(err), c.want, name)
		require.NotContains(t, detail(err), server.dir, name)
	}

	// Another host that answers at the same address is rejected once a key is known.
	server.newHostKey()
	_, err = s.Checkout(t.Context(), i, c.Repositories[0], Want{}, t.TempDir())
	require.Contains(t, detail(err), "the SSH key of the host is not the known one")
}

// locked returns a key with a passphrase, for which ssh must not ask.
func (s *sshServer) locked() string {
	s.t.Helper()
	s.key("locked")
	path := filepath.Join(s.dir, "locked")
	out, err := exec.CommandContext(s.t.Context(), "ssh-keygen", "-q", "-p", "-P", "", "-N", "passphrase", "-f", path).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	text, err := os.ReadFile(path)
	require.NoError(s.t, err)
	return string(text)
}
