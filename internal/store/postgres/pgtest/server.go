// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"assay/internal/assaytest"
)

const (
	superuser        = "postgres"
	loopback         = "127.0.0.1"
	initTimeout      = time.Minute
	startTimeout     = time.Minute // including recovery after a crash
	stopTimeout      = time.Minute
	statementTimeout = time.Minute
	pollInterval     = 10 * time.Millisecond
	logShown         = 8 << 10 // bytes of the server's log in an error
	portTries        = 20
)

// Ports of TCP servers: below the ports for outgoing connections on Linux
// (ip_local_port_range), so that a restarted server can listen on its port again.
const minPort, maxPort = 15000, 32000

// Config configures a server. The zero Config is a server for tests, on a unix socket.
type Config struct {
	// Durable makes the server wait until commits are on disk. Without it, commits survive a
	// crash of the server, but not of the machine.
	Durable bool
	// TCP makes the server also listen on 127.0.0.1. URL then returns that address.
	TCP bool
	// Password of the superuser over TCP. Default a random one.
	Password string
	// Settings are parameters of the server (postgresql.conf), such as max_connections. They
	// override those that Config implies.
	Settings map[string]string
	// Dir is the parent of the temporary directory. The server's user must have access to it.
	// Default os.TempDir(), and for a server that is not durable a directory in memory if it has
	// room: to create and delete databases costs several times as much CPU time on a disk.
	Dir string
}

// Server is a PostgreSQL server that Start has started. It is safe for concurrent
// use.
type Server struct {
	config     Config
	dir        string // contains all files of the server, including the socket
	bin        string // directory of the programs
	credential *syscall.Credential
	owner      *os.File // locked while this process lives
	port       int      // 0 without TCP
	databases  atomic.Int64

	mu      sync.Mutex
	process *assaytest.Process // nil before the first start
}

// Start creates and starts a server. It returns when the server accepts connections.
func Start(c Config) (*Server, error) {
	s := &Server{config: c}
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), initTimeout+startTimeout)
	defer cancel()
	var err error
	if s.bin, err = findPrograms(); err != nil {
		return err
	}
	if s.credential, err = unprivileged(); err != nil {
		return err
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	if err := s.initialize(ctx); err != nil {
		return err
	}
	if !s.config.TCP {
		return s.StartAgain(ctx)
	}
	for try := 1; ; try++ {
		if s.port, err = freePort(ctx); err != nil {
			return err
		}
		// Another process may have taken the port since.
		err := s.StartAgain(ctx)
		if err == nil || try == portTries || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
}

// findPrograms returns the directory of initdb and postgres.
func findPrograms() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(initdb), nil
	}
	const pattern = "/usr/lib/postgresql/*/bin/initdb"
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("find PostgreSQL: no initdb on the PATH and no %s; scripts/deps installs it", pattern)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// unprivileged returns the user of the server, nil for this process's own user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find an unprivileged user: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func freePort(ctx context.Context) (int, error) {
	var last error
	for range portTries {
		n, err := rand.Int(rand.Reader, big.NewInt(maxPort-minPort))
		if err != nil {
			return 0, err
		}
		port := minPort + int(n.Int64())
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

const (
	dirPrefix = "assay-postgres-"
	ownerFile = "owner" // in the directory; locked while its process lives
)

// makeDir creates the temporary directory. It deletes the directories of processes that
// were killed.
func (s *Server) makeDir() error {
	parent := s.config.Dir
	if parent == "" && !s.config.Durable {
		parent = memoryDir()
	}
	if parent == "" {
		parent = os.TempDir()
	}
	old, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		// Ignore an error: the directory may belong to another user.
		if f, err := lock(filepath.Join(dir, ownerFile), os.O_RDWR); err == nil {
			_ = os.RemoveAll(dir)
			_ = f.Close()
		}
	}
	if s.dir, err = os.MkdirTemp(parent, dirPrefix); err != nil {
		return err
	}
	// Rename the directory after locking it, so that no other process mistakes it for an
	// abandoned one.
	unnamed := filepath.Join(s.dir, "new")
	if s.owner, err = lock(unnamed, os.O_RDWR|os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	if err := os.Rename(unnamed, filepath.Join(s.dir, ownerFile)); err != nil {
		return err
	}
	return s.giveAway(s.dir)
}

// giveAway changes the owner of a file or directory to the server's user.
func (s *Server) giveAway(name string) error {
	if s.credential == nil {
		return nil
	}
	return os.Chown(name, int(s.credential.Uid), int(s.credential.Gid))
}

// lock opens a file and locks it until it is closed.
func lock(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Programs returns the directory of PostgreSQL's programs.
func (s *Server) Programs() string { return s.bin }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command prepares one of PostgreSQL's programs, without the PostgreSQL variables of the
// environment.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	// Use a process group of its own: an interrupt at the terminal is for this process only.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential, Setpgid: true}
	return cmd
}

// initialize creates the data directory.
func (s *Server) initialize(ctx context.Context) error {
	if s.config.Password == "" {
		s.config.Password = rand.Text()
	}
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte(s.config.Password), 0o600); err != nil {
		return err
	}
	if err := s.giveAway(password); err != nil {
		return err
	}
	cmd := s.command(ctx, "initdb", "--pgdata", s.data(), "--username", superuser, "--encoding", "UTF8", "--locale", "C",
		"--auth-local", "trust", "--auth-host", "scram-sha-256", "--pwfile", password, "--no-sync", "--no-instructions")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return os.Remove(password)
}

// settings returns the arguments that set the server's parameters. Later ones override
// earlier ones.
func (s *Server) settings() []string {
	var args []string
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	if !s.config.Durable {
		set("fsync", "off")
		set("full_page_writes", "off")
		set("max_wal_size", "128MB") // the directory may be in memory
	}
	for _, name := range slices.Sorted(maps.Keys(s.config.Settings)) {
		set(name, s.config.Settings[name])
	}
	set("unix_socket_directories", s.dir)
	if s.port == 0 {
		set("listen_addresses", "")
	} else {
		set("listen_addresses", loopback)
		set("port", strconv.Itoa(s.port))
	}
	return args
}

// StartAgain restarts a stopped server with its data, on the same address. It returns
// when the server accepts connections, which includes the recovery from an immediate
// stop.
func (s *Server) StartAgain(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil && s.process.Running() {
		return errors.New("pgtest: the server runs already")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := s.launch()
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	s.process = p
	for !s.ready(p) {
		select {
		case <-p.Ended():
			return fmt.Errorf("pgtest: the server ended at its start: %s\n%s", p.Wait(), s.Log())
		case <-ctx.Done():
			return fmt.Errorf("pgtest: the server does not get ready: %w\n%s", ctx.Err(), s.Log())
		case <-time.After(pollInterval):
		}
	}
	if err := s.exec(ctx, "SELECT 1"); err != nil {
		return fmt.Errorf("pgtest: the server does not answer: %w\n%s", err, s.Log())
	}
	return nil
}

// ready reports whether a run of the server accepts connections, according to its pid
// file (utils/pidfile.h of PostgreSQL). Connection attempts would fill its log with
// rejections.
func (s *Server) ready(p *assaytest.Process) bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) > 7 && lines[0] == strconv.Itoa(p.PID()) && strings.TrimSpace(lines[7]) == "ready"
}

// launch runs the server until it ends. Signals request the end.
func (s *Server) launch() (*assaytest.Process, error) {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := s.command(context.Background(), "postgres", append([]string{"-D", s.data()}, s.settings()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd.SysProcAttr)
	defer log.Close()
	return assaytest.StartProcess("the server", cmd, nil)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Log returns the last lines of the server's log.
func (s *Server) Log() string {
	f, err := os.Open(s.logFile())
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logShown {
		_, _ = f.Seek(-logShown, io.SeekEnd) // if this fails, show the whole log
	}
	text, _ := io.ReadAll(io.LimitReader(f, 2*logShown))
	return string(bytes.ToValidUTF8(text, []byte("?")))
}

// Stop makes the server close its sessions, roll back their transactions, write all data
// and end (PostgreSQL's fast shutdown). It returns when the server has ended. The data
// stays: StartAgain uses it, Close deletes it.
func (s *Server) Stop(ctx context.Context) error { return s.stop(ctx, syscall.SIGINT) }

// StopImmediate ends the server without a clean shutdown (PostgreSQL's immediate
// shutdown): as after a crash, it recovers at its next start. It returns when the server
// has ended.
func (s *Server) StopImmediate(ctx context.Context) error { return s.stop(ctx, syscall.SIGQUIT) }

func (s *Server) stop(ctx context.Context, signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process
	if p == nil || !p.Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pgtest: stop the server: %w", err)
	}
	select {
	case <-p.Ended():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pgtest: the server does not stop: %w\n%s", ctx.Err(), s.Log())
	}
}

// Close ends the server immediately and deletes its files.
func (s *Server) Close() error {
	err := s.StopImmediate(context.Background())
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	if s.owner != nil {
		err = errors.Join(err, s.owner.Close())
	}
	return err
}

// PID returns the process id of the server, the parent of its backends. It is 0 if the
// server does not run.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || !s.process.Running() {
		return 0
	}
	return s.process.PID()
}
