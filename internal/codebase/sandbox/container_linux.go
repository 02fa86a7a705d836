// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	insideID   = 1000 // user and group in a container
	sharedDir  = "/dev/shm"
	sharedSize = 64 << 20  // bytes of its files
	maxMessage = 4 << 10   // bytes of a message from the container
	maxOutput  = 128 << 20 // bytes of a script
	openFiles  = 4096      // of a process
	endDelay   = 10 * time.Second
)

// systemFiles are the files of /etc that programs need. A pattern may match none.
var systemFiles = []string{
	"/etc/alternatives", "/etc/debian_version", "/etc/java*", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/maven", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/pki/ca-trust",
	"/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/timezone",
}

// Run runs the script for the trees, and returns how it ended last. It returns an error that wraps ErrUnavailable if
// this machine cannot isolate it, and the cause of ctx if ctx ends first.
func (c *Container) Run(ctx context.Context) (Exit, error) {
	if err := context.Cause(ctx); err != nil {
		return Exit{}, err
	}
	here, there, err := socketPair()
	if err != nil {
		return Exit{}, err
	}
	defer here.Close()
	defer there.Close()
	cmd, files, err := c.command(ctx)
	if err != nil {
		return Exit{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer closeAll(files)
	stderr := Tail{Max: maxStderr}
	cmd.Dir, cmd.ExtraFiles = "/", append([]*os.File{there}, files...)
	cmd.Env = append(slices.Clone(c.Env), "HOME="+HomeDir, "TMPDIR="+tempDir)
	cmd.Stderr = &stderr
	// The first process of the container ends at the end of this connection, and with it all others. Only bwrap's
	// process is a child of this one, and it returns when they have ended.
	cmd.Cancel, cmd.WaitDelay = here.Close, endDelay
	input, archives := io.Pipe()
	cmd.Stdin = input
	if err := cmd.Start(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return Exit{}, cause
		}
		return Exit{}, fmt.Errorf("%w: start bwrap: %w", ErrUnavailable, err)
	}
	_ = there.Close()
	exit, err := c.each(here, archives)
	_, _ = here.Close(), archives.Close()
	wait := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return Exit{}, context.Cause(ctx)
	case err == nil && exit.Failed == "":
		return exit, nil
	case errors.As(err, new(*treeError)):
		return Exit{}, err
	case exit.Failed != "":
		err = errors.New(exit.Failed)
	default:
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = errors.New(text)
		} else if wait != nil {
			err = wait
		}
	}
	return Exit{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// treeError reports that a tree could not be read.
type treeError struct{ err error }

func (e *treeError) Error() string { return "copy the tree: " + e.err.Error() }
func (e *treeError) Unwrap() error { return e.err }

// each runs the script for each tree.
func (c *Container) each(conn *net.UnixConn, archives *io.PipeWriter) (Exit, error) {
	trees := c.Trees
	if len(trees) == 0 {
		trees = []fs.FS{nil}
	}
	for i, tree := range trees {
		copied := make(chan error, 1)
		go func() {
			err := writeTree(archives, tree)
			if err != nil {
				_ = archives.CloseWithError(err)
			}
			copied <- err
		}()
		exit, err := c.once(conn)
		if err != nil || exit.Failed != "" {
			_ = archives.Close() // ends the copy, if it has not failed
		}
		if failed := <-copied; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
			return Exit{}, &treeError{failed}
		}
		if err != nil || exit.Failed != "" {
			return exit, err
		}
		if more := c.Ended == nil || c.Ended(exit); !more || i == len(trees)-1 {
			return exit, nil
		}
	}
	return Exit{}, nil // not reached
}

// once receives the output, the listeners and the result of a script.
func (c *Container) once(conn *net.UnixConn) (exit Exit, err error) {
	message, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4*(1+len(c.Ports))))
	_, n, _, _, err := conn.ReadMsgUnix(message, rights)
	if err != nil {
		return Exit{}, fmt.Errorf("the sandbox did not start: %w", err)
	}
	files, err := receive(rights[:n])
	defer closeAll(files)
	if err != nil || len(files) != 1+len(c.Ports) {
		return Exit{}, fmt.Errorf("the sandbox did not start: %w", err)
	}
	var written int64
	var copying sync.WaitGroup
	copying.Go(func() {
		written, _ = io.Copy(&output{to: c.Output, fail: func(error) {}}, io.LimitReader(files[0], maxOutput))
		if written == maxOutput {
			_ = conn.Close() // ends the container
		}
	})
	err = c.serve(files[1:])
	closeAll(files[1:]) // so that only the listeners of Serve are left
	if err == nil {
		// The container sends nothing more before it has another tree.
		err = json.NewDecoder(io.LimitReader(conn, maxMessage)).Decode(&exit)
	}
	if err != nil {
		_ = conn.Close()
	}
	copying.Wait() // the script has ended, or the container
	switch {
	case written == maxOutput:
		return Exit{Code: 128 + int(unix.SIGKILL), Limit: "output"}, nil
	case err != nil:
		return Exit{}, fmt.Errorf("the sandbox ended without a result: %w", err)
	}
	return exit, nil
}

// serve passes listeners to Serve.
func (c *Container) serve(files []*os.File) error {
	if c.Serve == nil {
		return nil
	}
	var listeners []net.Listener
	for _, f := range files {
		l, err := net.FileListener(f)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return err
		}
		listeners = append(listeners, l)
	}
	c.Serve(listeners)
	return nil
}

// receive returns the files whose descriptors a message has.
func receive(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "container"))
		}
	}
	return files, nil
}

// socketPair returns the two ends of a connection, the second for a child.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create a socket pair: %w", err)
	}
	here := os.NewFile(uintptr(fds[0]), "control")
	defer here.Close()
	there := os.NewFile(uintptr(fds[1]), "control")
	conn, err := net.FileConn(here)
	if err != nil {
		_ = there.Close()
		return nil, nil, fmt.Errorf("create a socket pair: %w", err)
	}
	return conn.(*net.UnixConn), there, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// command returns the command that starts the container. If this process is root's, the command becomes an
// unprivileged user first. The files are for its descriptors after controlFD.
func (c *Container) command(ctx context.Context) (*exec.Cmd, []*os.File, error) {
	path, err := Executable("bwrap")
	if err != nil {
		return nil, nil, err
	}
	self, err := Self()
	if err != nil {
		return nil, nil, err
	}
	b := bwrap{staged: os.Geteuid() == 0}
	if err := b.arguments(c, self); err != nil {
		closeAll(b.files)
		return nil, nil, err
	}
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if b.staged {
		paths, err := json.Marshal(b.paths)
		if err != nil {
			return nil, nil, err
		}
		path, b.args = self, append([]string{stageArgument, string(paths), path}, b.args...)
		attributes.Cloneflags = unix.CLONE_NEWNS
	}
	cmd := exec.CommandContext(ctx, path, b.args...)
	cmd.SysProcAttr = attributes
	return cmd, b.files, nil
}

// bwrap is the command line of bubblewrap.
type bwrap struct {
	args   []string
	files  []*os.File // after controlFD
	staged bool
	paths  []string // of runStage
}

func (b *bwrap) add(args ...string) { b.args = append(b.args, args...) }

func (b *bwrap) arguments(c *Container, self string) error {
	b.add("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL",
		"--uid", strconv.Itoa(insideID), "--gid", strconv.Itoa(insideID), "--hostname", "sandbox", "--proc", "/proc", "--dev", "/dev")
	if err := b.bind(self, Program); err != nil {
		return err
	}
	if err := b.system(); err != nil {
		return err
	}
	b.add("--perms", "1777", "--size", strconv.FormatInt(c.Disk, 10), "--tmpfs", tempDir, "--symlink", tempDir, "/var/tmp",
		"--perms", "1777", "--size", strconv.Itoa(sharedSize), "--tmpfs", sharedDir,
		// Mappings of /dev/zero are memory of no process. /dev/full reads the same and cannot be mapped.
		"--dev-bind", "/dev/full", "/dev/zero")
	for _, dir := range c.ReadOnly {
		if err := b.bind(dir, dir); err != nil {
			return err
		}
	}
	user := fmt.Sprintf("sandbox:x:%d:", insideID)
	for name, text := range map[string]string{
		"/etc/passwd": user + fmt.Sprintf("%d::%s:/bin/sh\n", insideID, HomeDir), "/etc/group": user + "\n",
		"/etc/hosts": "127.0.0.1 localhost sandbox\n",
	} {
		if err := b.file(name, text); err != nil {
			return err
		}
	}
	spec, err := json.Marshal(initSpec{
		Script: c.Script, Child: child{Limits: Limits{File: c.Disk, Files: openFiles}, Processes: c.Processes, Confined: true},
		Memory: c.Memory, Objects: cmp.Or(c.objects, max(c.Memory/2, minObjects)), Watches: cmp.Or(c.watches, watchMemory()), Ports: c.Ports,
	})
	if err != nil {
		return err
	}
	b.add("--remount-ro", "/dev", "--remount-ro", "/", // file systems in memory without a limit
		"--chdir", tempDir, "--", Program, initArgument, string(spec))
	return nil
}

// system makes the programs and libraries of this machine visible.
func (b *bwrap) system() error {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode().Type() == os.ModeSymlink:
			target, err := os.Readlink(dir)
			if err != nil {
				return err
			}
			b.add("--symlink", target, dir)
			continue
		}
		if err := b.bind(dir, dir); err != nil {
			return err
		}
	}
	for _, pattern := range systemFiles {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := b.bind(path, path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// bind makes a file or directory visible, read-only.
func (b *bwrap) bind(from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	if b.staged {
		b.paths = append(b.paths, from)
		from = staged(len(b.paths) - 1)
	}
	b.add("--ro-bind", from, to)
	return nil
}

// file creates a file that holds text, which has to fit into the buffer of a pipe.
func (b *bwrap) file(name, text string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	b.files = append(b.files, r)
	b.add("--perms", "0444", "--file", strconv.Itoa(controlFD+len(b.files)), name)
	_, err = w.WriteString(text) // less than a pipe holds
	return errors.Join(err, w.Close())
}
