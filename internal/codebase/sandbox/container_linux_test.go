// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"github.com/stretchr/testify/require"
)

// container returns a container with small limits.
func container(script string) *Container {
	return &Container{
		Script: script, Env: []string{"PATH=/usr/bin:/bin"}, Memory: 256 << 20, Disk: 32 << 20, Processes: 64,
	}
}

// needContainers ends a test on a machine that has no containers.
func needContainers(t *testing.T) {
	if err := container("true").Available(t.Context()); err != nil {
		require.ErrorIs(t, err, ErrUnavailable)
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s needs containers: %v\n", t.Name(), err)
		t.Skip(err)
	}
}

// run runs a container that ends by itself and returns its output.
func run(t *testing.T, c *Container, want Exit) string {
	t.Helper()
	out := &Buffer{Max: 1 << 20}
	c.Output = out
	exit, err := c.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, exit, out.String())
	return out.String()
}

// attack returns a script that attacks with few threads, whatever the number of CPUs: they count as processes.
func attack(args ...string) string {
	script := "GOMAXPROCS=1 " + Program + " " + hostile
	for _, a := range args {
		script += " '" + a + "'"
	}
	return script
}

// outside attacks without a container.
func outside(t *testing.T, args ...string) string {
	out, err := exec.Command(os.Args[0], append([]string{hostile}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestContainer(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", ".git", "objects"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "run"), []byte("#!/bin/sh\necho run $A\n"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "private"), []byte("text\n"), 0o600))
	require.NoError(t, os.Symlink("a/run", filepath.Join(dir, "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	c := container("pwd; ls -A . a; cat private; ./link; id -u; echo $HOME $TMPDIR; touch ~/x && ls ~; exit 7")
	c.Trees, c.Env = []fs.FS{os.DirFS(dir)}, append(c.Env, "A=b")
	require.Equal(t, "/tmp/src\n.:\na\nlink\nprivate\n\na:\nrun\ntext\nrun b\n1000\n/tmp/home /tmp\nx\n", run(t, c, Exit{Code: 7}))

	run(t, container("kill -TERM $$"), Exit{Code: 128 + int(syscall.SIGTERM)})
	require.Contains(t, run(t, container("echo out; echo err >&2; exec ls -l /proc/self/fd"), Exit{}), "out\nerr\n")
	require.Contains(t, run(t, container("does-not-exist"), Exit{Code: 127}), "not found")

	c = container("true")
	c.Trees = []fs.FS{os.DirFS(filepath.Join(dir, "missing"))}
	_, err := c.Run(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestTrees runs a script for several trees. Only its home stays.
func TestTrees(t *testing.T) {
	needContainers(t)
	var trees []fs.FS
	for i := range 3 {
		trees = append(trees, fstest.MapFS{"tree": {Data: fmt.Appendln(nil, i)}, fmt.Sprint("only-", i): {}})
	}
	mark := uuid.NewString()
	c := container("cat tree; ls; ls -A /tmp /dev/shm ~; touch new ~/home /dev/shm/x; mkdir -p /tmp/.x/y; chmod 0 /tmp/.x; " + attack("escape", mark) + "; " + attack("dial", "tcp 127.0.0.1:4318") + "; exit $(cat tree)")
	c.Trees, c.Ports = trees, []int{4318}
	var serving sync.WaitGroup
	var listeners []net.Listener
	c.Serve = func(l []net.Listener) {
		listeners = l
		serving.Go(func() {
			if conn, err := l[0].Accept(); err == nil {
				_ = conn.Close()
			}
		})
	}
	var exits []Exit
	c.Ended = func(e Exit) bool {
		require.NoError(t, listeners[0].Close())
		serving.Wait()
		require.Zero(t, processes(t, mark+"\x00"), "the orphan has ended")
		exits = append(exits, e)
		return len(exits) < 2
	}
	out := run(t, c, Exit{Code: 1})
	require.Equal(t, []Exit{{}, {Code: 1}}, exits)
	require.Equal(t, "0\nonly-0\ntree\n/dev/shm:\n\n/tmp:\nhome\nsrc\n\n/tmp/home:\nreached tcp 127.0.0.1:4318\n"+
		"1\nonly-1\ntree\n/dev/shm:\n\n/tmp:\nhome\nsrc\n\n/tmp/home:\nhome\nreached tcp 127.0.0.1:4318\n", out)
}

// TestUnavailable has no bubblewrap: no code runs.
func TestUnavailable(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	ran := &Buffer{Max: 100}
	c := container("echo ran")
	c.Output = ran
	_, err := c.Run(t.Context())
	require.ErrorIs(t, err, ErrUnavailable)
	require.Empty(t, ran.String())
	require.ErrorIs(t, c.Available(t.Context()), ErrUnavailable)

	// A bubblewrap that cannot isolate.
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "bwrap"), []byte("#!/bin/sh\necho no namespaces >&2\nexit 1\n"), 0o755))
	t.Setenv("PATH", bin)
	_, err = c.Run(t.Context())
	require.ErrorIs(t, err, ErrUnavailable)
	require.Empty(t, ran.String())
}

// TestUnprivileged runs the tests of containers as a user other than root.
func TestUnprivileged(t *testing.T) {
	needContainers(t)
	if os.Geteuid() != 0 {
		return // the other tests do
	}
	dir, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	program, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	path := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(path, program, 0o755))
	cmd := exec.Command(path, "-test.v", "-test.run=^(TestContainer|TestHostile.*)$")
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + Path(), "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestHostileFiles")
	require.NotContains(t, string(out), "SKIP")
}

func TestHostileFiles(t *testing.T) {
	needContainers(t)
	dir, tree := t.TempDir(), t.TempDir()
	secret := uuid.NewString()
	file := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "file"), []byte("before"), 0o666))
	require.NoError(t, os.Symlink(file, filepath.Join(tree, "link")))
	shared := filepath.Join(dir, "shared")
	require.NoError(t, os.Mkdir(shared, 0o755))
	require.NoError(t, os.Chmod(shared, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(shared, "file"), []byte("before"), 0o666))
	t.Setenv("ASSAY_SECRET", secret)

	c := container(strings.Join([]string{
		"cat " + file, "ls -R " + dir, "cat link", "cat /proc/*/root" + file, "cat /proc/*/cwd/secret",
		"ls /root /home /var/lib /etc/shadow " + tree,
		"tr '\\0' '\\n' < /proc/1/environ", "cat /proc/*/environ | tr '\\0' '\\n'", "env",
		"echo after > file", "echo after > " + filepath.Join(tree, "file"),
		"cat " + shared + "/file", "echo after > " + shared + "/file", "rm -f " + shared + "/file", "touch " + shared + "/new",
		"touch /x /etc/x /run/x /usr/x /dev/x /proc/x /var/x; ls -d /x /etc/x /run/x /usr/x /dev/x /var/x",
		"echo x > " + Program,
		"cat file",
	}, "\n"))
	c.Trees, c.ReadOnly = []fs.FS{os.DirFS(tree)}, []string{shared}
	out := run(t, c, Exit{})
	require.NotContains(t, out, secret)
	require.Contains(t, out, "PATH=") // it reads an environment: its own
	require.Contains(t, out, "before", "the directory is readable")
	require.True(t, strings.HasSuffix(out, "after\n"), "the copy is writable: %s", out)
	require.NotRegexp(t, `(?m)^/\S*x$`, out, "no other directory is writable")
	for _, path := range []string{filepath.Join(tree, "file"), filepath.Join(shared, "file")} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "before", string(text))
	}
	require.NoFileExists(t, filepath.Join(shared, "new"))
}

// TestHostileNeighbour reads the files of another container.
func TestHostileNeighbour(t *testing.T) {
	needContainers(t)
	ready, ended := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(ready) })
	mark := uuid.NewString()
	first := container("echo " + mark + " > /tmp/mark; echo ready; sleep 1000000")
	first.Output = writer(func([]byte) { once() })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(ended)
		_, _ = first.Run(ctx)
	}()
	<-ready
	require.Positive(t, processes(t, mark), "it runs")
	require.Empty(t, run(t, container("cat /tmp/mark /proc/*/root/tmp/mark 2>/dev/null; cat /proc/*/cmdline | tr '\\0' ' ' | grep '["+mark[:1]+"]"+mark[1:]+"'; true"), Exit{}))
	cancel()
	<-ended
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestHostileNetwork(t *testing.T) {
	needContainers(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	everywhere, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer everywhere.Close()
	name := uuid.NewString()
	abstract, err := net.Listen("unix", "@"+name)
	require.NoError(t, err)
	defer abstract.Close()
	file := filepath.Join(t.TempDir(), "socket")
	path, err := net.Listen("unix", file)
	require.NoError(t, err)
	defer path.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	addresses := []string{"tcp " + tcp.Addr().String(), "unix @" + name, "unix " + file, "udp " + udp.LocalAddr().String()}
	interfaces, err := net.InterfaceAddrs()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(everywhere.Addr().String())
	require.NoError(t, err)
	for _, a := range interfaces {
		if ip := a.(*net.IPNet).IP; !ip.IsLinkLocalUnicast() {
			addresses = append(addresses, "tcp "+net.JoinHostPort(ip.String(), port))
		}
	}
	require.Equal(t, len(addresses), strings.Count(outside(t, append([]string{"dial"}, addresses...)...), "reached"), "the attack works without a container")

	external := append(addresses, "tcp 192.0.2.1:80", "udp 192.0.2.1:53", "tcp [2001:db8::1]:80", "udp 169.254.169.254:80")
	out := run(t, container(attack(append([]string{"dial"}, external...)...)), Exit{})
	require.Equal(t, "reached udp "+udp.LocalAddr().String()+"\n", out, "UDP on the container's own loopback interface only")
	require.NoError(t, udp.SetReadDeadline(time.Now()))
	// The datagram of the attack without a container has arrived, and no other.
	require.NoError(t, udp.SetReadDeadline(time.Now().Add(time.Minute)))
	_, _, err = udp.ReadFrom(make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, udp.SetReadDeadline(time.Unix(1, 0)))
	_, _, err = udp.ReadFrom(make([]byte, 10))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// TestListeners has a container talk to this process through its loopback interface.
func TestListeners(t *testing.T) {
	needContainers(t)
	c := container(attack("dial", "tcp 127.0.0.1:4318", "tcp localhost:4317", "tcp 127.0.0.1:4316"))
	c.Ports = []int{4317, 4318}
	var got atomic.Int64
	c.Serve = func(listeners []net.Listener) {
		for i, l := range listeners {
			go func() {
				defer l.Close()
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				text, _ := io.ReadAll(conn)
				got.Add(int64(len(text)) << (8 * i))
			}()
		}
	}
	require.Equal(t, "reached tcp 127.0.0.1:4318\nreached tcp localhost:4317\n", run(t, c, Exit{}))
	require.Eventually(t, func() bool { return got.Load() == 0x101 }, time.Minute, time.Millisecond)
}

// TestHeldListeners: a child that the server forks has a listener for a while after the end of the script.
func TestHeldListeners(t *testing.T) {
	needContainers(t)
	c := container("echo run")
	c.Trees, c.Ports = []fs.FS{fstest.MapFS{}, fstest.MapFS{}}, []int{4318}
	var listener net.Listener
	var held *os.File
	c.Serve = func(l []net.Listener) {
		listener = l[0]
		var err error
		held, err = listener.(*net.TCPListener).File()
		require.NoError(t, err)
	}
	c.Ended = func(Exit) bool {
		require.NoError(t, listener.Close())
		child := held // Serve sets it again for the second tree
		time.AfterFunc(300*time.Millisecond, func() { _ = child.Close() })
		return true
	}
	require.Equal(t, "run\nrun\n", run(t, c, Exit{}))
}

// TestClosedListeners has a server that closes its listeners at once.
func TestClosedListeners(t *testing.T) {
	needContainers(t)
	c := container("while [ -n \"$(" + attack("dial", "tcp 127.0.0.1:4317", "tcp 127.0.0.1:4318") + ")\" ]; do :; done; echo refused")
	c.Ports = []int{4317, 4318}
	c.Serve = func(listeners []net.Listener) {
		for _, l := range listeners {
			_ = l.Close()
		}
	}
	out := &Buffer{Max: 100}
	c.Output = out
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Run(ctx)
	require.NoError(t, err)
	require.Equal(t, "refused\n", out.String())
}

func TestHostileForkBomb(t *testing.T) {
	needContainers(t)
	// A shell, as a program in Go fails when it cannot start a thread.
	out := run(t, container("(n=0; while sleep 1000000 & do n=$((n+1)); echo $n > /tmp/n; done); read n < /tmp/n; echo started $n"), Exit{})
	_, text, _ := strings.Cut(out, "started ")
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err, out)
	require.Positive(t, n)
	require.LessOrEqual(t, n, 64)
	require.Contains(t, out, "fork")
}

func TestHostileDisk(t *testing.T) {
	needContainers(t)
	c := container("for f in /tmp/a /tmp/b /var/tmp/c ~/d /dev/shm/e ./f /dev/g /g /run/g; do head -c 300000000 /dev/zero > $f; done 2>/dev/null\n" +
		"cat /tmp/a /tmp/b ~/d ./f 2>/dev/null | wc -c; wc -c < /dev/shm/e; df -P / /dev | awk '{print $5}'")
	out := strings.Fields(run(t, c, Exit{}))
	disk, err := strconv.Atoi(out[0])
	require.NoError(t, err)
	require.LessOrEqual(t, disk, 32<<20)
	require.Greater(t, disk, 16<<20)
	shared, err := strconv.Atoi(out[1])
	require.NoError(t, err)
	require.LessOrEqual(t, shared, sharedSize)

	for _, dir := range []string{"/tmp", "/dev/shm"} {
		run(t, container("i=0; while :; do : > "+dir+"/$i; i=$((i+1)); done"), Exit{Code: 137, Limit: "files"})
	}

	// A tree that does not fit is not run.
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "big"), make([]byte, 33<<20), 0o644))
	c = container("echo ran")
	c.Trees = []fs.FS{os.DirFS(dir)}
	_, err = c.Run(t.Context())
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "no space left")
}

func TestHostileMemory(t *testing.T) {
	needContainers(t)
	for name, args := range map[string][]string{
		"one process":    {"memory", "0", "400000000"},
		"many processes": {"memory", "8", "60000000"},
		"no leader":      {"thread", "400000000"},
		"sockets":        {"sockets", "2"},
		"page tables":    {"tables", "400000000"},
		"connections":    {"tcp", "200"},
		"passed sockets": {"passed"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, container(attack(args...)), Exit{Code: 137, Limit: "memory"})
		})
	}
}

// TestHostileObjects has the kernel need memory that it counts for no process.
func TestHostileObjects(t *testing.T) {
	needContainers(t)
	c := container(attack("locks", "1000"))
	c.Memory, c.objects = 64<<20, 1<<20
	run(t, c, Exit{Code: 137, Limit: "memory"})
}

// TestHostileWatches has epoll watch all descriptors that it may watch for the user, who is that of the server.
func TestHostileWatches(t *testing.T) {
	needContainers(t)
	require.Positive(t, watchMemory())
	c := container(attack("watch"))
	c.watches = 16 << 20
	run(t, c, Exit{Code: 137, Limit: "memory"})
}

// TestMemory reads files of the kernel.
func TestMemory(t *testing.T) {
	const status = "Name:\tRssAnon: 99\nUmask:\t0022\nFDSize:\t64\nRssAnon:\t     968 kB\nRssFile:\t    6728 kB\nRssShmem:\t       4 kB\nVmPTE:\t     116 kB\nVmSwap:\t     300 kB\n"
	require.EqualValues(t, (968+4+116+300)<<10+64*bytesPerDescriptor, processMemory([]byte(status)))
	require.Zero(t, processMemory([]byte("Name:\tzombie\n")), "it has ended")
	require.EqualValues(t, 3*os.Getpagesize(), tcpMemory([]byte("sockets: used 10\nTCP: inuse 2 orphan 0 tw 91 alloc 2 mem 3\nUDP: inuse 0 mem 7\n")))
	m := machineMemory()
	require.Positive(t, m.objects)
	require.Positive(t, m.available)
	require.Greater(t, m.total, m.available)
}

// TestMachine has machines of which other programs use a part.
func TestMachine(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	m := parseMachine([]byte("MemTotal:       16777216 kB\nMemFree:        1 kB\nMemAvailable:   524288 kB\nSUnreclaim:       2097152 kB\n"))
	require.Equal(t, machine{total: 16 * gib, available: 512 * mib, objects: 2 * gib}, m)
	require.False(t, m.scarce())
	m.available--
	require.True(t, m.scarce())
	require.False(t, machine{total: 1 * gib, available: 64 * mib}.scarce(), "a small machine")
	require.True(t, machine{total: 1 * gib, available: 64*mib - 1}.scarce())

	const tib = 1 << 40
	s := initSpec{Memory: 1000 * tib, Objects: 1 * tib} // more than the processes of this machine have
	require.Empty(t, s.exceededMemory(machine{objects: 1}, machine{total: gib, available: gib, objects: 1 * tib}))
	require.Equal(t, "memory of the machine", s.exceededMemory(m, m))
	require.Equal(t, "memory of the machine", s.exceededMemory(m, machine{}), "it cannot be read")
	require.Equal(t, "memory", s.exceededMemory(machine{}, machine{total: gib, available: gib, objects: 1001*tib + 1}))
	s.Watches = 1
	require.Empty(t, s.exceededMemory(machine{objects: 1}, machine{total: gib, available: gib, objects: 2}))
	require.Equal(t, "memory", s.exceededMemory(machine{objects: 1}, machine{total: gib, available: gib, objects: 3}))
	s.Memory = 0
	require.Empty(t, s.exceededMemory(m, m), "there is no limit")
}

// TestHostileSignals kills everything that it can see or guess.
func TestHostileSignals(t *testing.T) {
	needContainers(t)
	victim := exec.Command("sleep", "1000000")
	require.NoError(t, victim.Start())
	ended := make(chan error, 1)
	go func() { ended <- victim.Wait() }()
	script := fmt.Sprintf("kill -9 1; kill -STOP 1; kill -9 %d %d %d; kill -9 -1; echo survived; exit 3", victim.Process.Pid, os.Getpid(), os.Getppid())
	require.Contains(t, run(t, container(script), Exit{Code: 3}), "survived")
	select {
	case err := <-ended:
		t.Fatalf("the victim has ended: %v", err)
	default:
	}
	require.NoError(t, victim.Process.Kill())
	require.Error(t, <-ended)
}

// processes returns the number of processes of this machine with a text in their arguments.
func processes(t *testing.T, text string) (n int) {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range found {
		if args, err := os.ReadFile(path); err == nil && bytes.Contains(args, []byte(text)) {
			n++
		}
	}
	return n
}

// TestHostileOrphans leaves processes behind that no longer belong to the script.
func TestHostileOrphans(t *testing.T) {
	needContainers(t)
	mark := uuid.NewString()
	alive := 0
	c := container(attack("escape", mark) + "; echo escaped; sleep 1000000")
	// While it runs, the orphan is there, with the processes that have the mark in their script.
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	c.Output = writer(func([]byte) { alive = processes(t, mark); cancel(cause) })
	_, err := c.Run(ctx)
	require.ErrorIs(t, err, cause)
	require.GreaterOrEqual(t, alive, 2)
	require.Zero(t, processes(t, mark))

	run(t, container(attack("escape", mark)+"; exit 5"), Exit{Code: 5})
	require.Zero(t, processes(t, mark))

	// A deadline ends scripts that ignore signals.
	limited, cancelLimited := context.WithTimeout(t.Context(), time.Second)
	defer cancelLimited()
	_, err = container("trap '' TERM INT HUP; : " + mark + "; while :; do :; done").Run(limited)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, processes(t, mark))
}

func TestHostileOutput(t *testing.T) {
	needContainers(t)
	out := &Tail{Max: 1000}
	c := container("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end")
	c.Output = out
	exit, err := c.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, Exit{}, exit)
	require.Len(t, out.String(), 1000)
	require.Equal(t, "end\n", out.Lines())

	// To read output without end would take a CPU of the server.
	c = container("cat /dev/zero")
	c.Output = out
	exit, err = c.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, Exit{Code: 137, Limit: "output"}, exit)
}

func TestHostileTrace(t *testing.T) {
	needContainers(t)
	victim := exec.Command("sleep", "1000000")
	require.NoError(t, victim.Start())
	defer func() { _ = victim.Wait() }()
	defer func() { _ = victim.Process.Kill() }()
	require.Contains(t, outside(t, "trace", strconv.Itoa(victim.Process.Pid)), "opens the memory", "the attack works without a container")
	require.Empty(t, run(t, container(attack("trace", "1", strconv.Itoa(victim.Process.Pid), strconv.Itoa(os.Getpid()))), Exit{}))
}

func TestHostileCalls(t *testing.T) {
	needContainers(t)
	out := run(t, container(attack("calls")), Exit{})
	if _, err := landlock.LandlockGetABIVersion(); err != nil {
		fmt.Fprintf(os.Stderr, "NOT TESTED: this kernel has no Landlock: %v\n", err)
		out = strings.ReplaceAll(out, "succeeds: oom\n", "") // a process may make itself less likely to be killed
	}
	require.Empty(t, out)
}
