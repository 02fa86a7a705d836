// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initArgument is the first argument of the first process of a container.
const initArgument = "agent-init"

const (
	controlFD     = 3
	watchInterval = 50 * time.Millisecond
	bytesPerFile  = 2048 // of the limit for disk; the kernel needs memory for each file, even if it is empty
)

// initSpec is what the first process of a container does.
type initSpec struct {
	Script string
	Child  child
	Memory int64
	Ports  []int
}

// runInit is the first process of a container. The kernel protects it from signals of the others, and kills them all
// when it ends.
func runInit(text string) error {
	unix.CloseOnExec(controlFD)
	unix.Umask(0o022)
	// If this machine's memory runs out, the kernel kills the container first.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // no process of the container may trace this one
		return fmt.Errorf("protect the sandbox: %w", err)
	}
	file := os.NewFile(controlFD, "control")
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	_ = file.Close()
	control := conn.(*net.UnixConn)
	go func() {
		_, _ = io.Copy(io.Discard, control) // until the server closes the connection or ends
		os.Exit(exitLimits)
	}()
	var spec initSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("decode the container: %w", err)
	}
	results := json.NewEncoder(control)
	for input := bufio.NewReader(os.Stdin); ; {
		if _, err := input.Peek(1); errors.Is(err, io.EOF) {
			return nil // there is no other tree
		} else if err != nil {
			return err
		}
		output, err := spec.connect(control)
		if err != nil {
			return err
		}
		exit, err := spec.run(input, output)
		if err != nil {
			exit = Exit{Failed: err.Error()}
		}
		if err := results.Encode(exit); err != nil || exit.Failed != "" || exit.Limit != "" {
			return err
		}
	}
}

// connect sends the server the other end of the output of a script, and listeners, which stay in the network of the
// container.
func (s *initSpec) connect(control *net.UnixConn) (*os.File, error) {
	r, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	fds := []int{int(r.Fd())}
	for _, port := range s.Ports {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	_, _, err = control.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
	return output, err
}

// run copies a tree, runs the script and watches its memory.
func (s *initSpec) run(tree io.Reader, output *os.File) (Exit, error) {
	defer output.Close()
	if err := os.Mkdir(HomeDir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return Exit{}, err
	}
	if err := os.Mkdir(SourceDir, 0o755); err != nil {
		return Exit{}, err
	}
	if err := readTree(tree, SourceDir); err != nil {
		return Exit{}, fmt.Errorf("copy the tree: %w", err)
	}
	limits, err := json.Marshal(s.Child)
	if err != nil {
		return Exit{}, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return Exit{}, err
	}
	defer null.Close()
	script, err := syscall.ForkExec(Program, []string{Program, argument, string(limits), "/bin/sh", "-c", s.Script}, &syscall.ProcAttr{
		Dir: SourceDir, Env: os.Environ(), Files: []uintptr{null.Fd(), output.Fd(), output.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return Exit{}, err
	}
	ended := make(chan Exit, 1)
	go func() { ended <- reap(script) }()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case exit := <-ended:
			cleanUp()
			return exit, nil
		case <-tick.C:
			if limit := s.exceeded(); limit != "" {
				return Exit{Code: 128 + int(unix.SIGKILL), Limit: limit}, nil
			}
		}
	}
}

// cleanUp ends all other processes and removes the files that they left, except those in HomeDir. A file that cannot be
// removed stays; the next tree is not copied if it is in its way.
func cleanUp() {
	_ = syscall.Kill(-1, syscall.SIGKILL) // fails if there is none
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	for _, pattern := range []string{tempDir + "/*", tempDir + "/.*", "/dev/shm/*", "/dev/shm/.*"} {
		left, _ := filepath.Glob(pattern) // the pattern is valid
		for _, path := range left {
			if path == HomeDir {
				continue
			}
			_ = filepath.WalkDir(path, func(name string, d os.DirEntry, _ error) error {
				if d != nil && d.IsDir() {
					_ = os.Chmod(name, 0o700)
				}
				return nil
			})
			_ = os.RemoveAll(path)
		}
	}
}

// reap waits for all processes of the container until the script has ended.
func reap(script int) Exit {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return Exit{Failed: err.Error()}
		case pid != script:
		case status.Signaled():
			return Exit{Code: 128 + int(status.Signal())}
		default:
			return Exit{Code: status.ExitStatus()}
		}
	}
}

// exceeded returns the limit that the container exceeds, or "".
func (s *initSpec) exceeded() string {
	var files unix.Statfs_t
	if err := unix.Statfs(tempDir, &files); err == nil && files.Files-files.Ffree > uint64(s.Child.File)/bytesPerFile {
		return "files"
	}
	if s.Memory > 0 {
		if used := memory() + queued(s.Memory/8); used > s.Memory || used+buffers(s.Memory-used) > s.Memory {
			return "memory"
		}
	}
	return ""
}

// bytesPerBuffer is what an open socket or pipe counts: the kernel holds the default of 208 KiB for each end of a socket,
// twice with its own data, and 64 KiB for a pipe.
const bytesPerBuffer = 256 << 10

// buffers returns the bytes that the kernel may hold for open sockets and pipes of the container, counting up to a
// limit. A file that processes share counts for each.
func buffers(limit int64) int64 {
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd") // the pattern is valid
	var open []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil { // it has ended
			continue
		}
		for _, e := range entries {
			open = append(open, filepath.Join(dir, e.Name()))
		}
	}
	if int64(len(open))*bytesPerBuffer <= limit {
		return 0 // whatever they are
	}
	total := int64(0)
	for _, path := range open {
		to, err := os.Readlink(path)
		if err == nil && (strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "pipe:")) {
			if total += bytesPerBuffer; total > limit {
				break
			}
		}
	}
	return total
}

// queued returns the bytes that wait in TCP connections of the container. The kernel lets a connection queue tens of
// megabytes, and all of a machine, those of the server too, come to a halt when they have a tenth of its memory. It is 0
// while all of the machine take no more than enough, because to read the tables takes milliseconds.
func queued(enough int64) (total int64) {
	if machine, err := os.ReadFile("/proc/net/sockstat"); err != nil || tcpMemory(machine) <= enough {
		return 0
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // there may be no IPv6
		for line := range bytes.Lines(text) {
			if fields := bytes.Fields(line); len(fields) > 4 { // number, local and remote address, state, queues
				sent, received, _ := bytes.Cut(fields[4], []byte(":"))
				for _, queue := range [][]byte{sent, received} {
					n, _ := strconv.ParseInt(string(queue), 16, 64) // 0 in the header
					total += n
				}
			}
		}
	}
	return total
}

// tcpMemory returns the bytes of all TCP connections of the machine: "TCP: inuse 9 orphan 0 tw 40 alloc 9 mem 346".
func tcpMemory(sockstat []byte) int64 {
	_, line, _ := bytes.Cut(sockstat, []byte("\nTCP: "))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	_, pages, _ := bytes.Cut(line, []byte(" mem "))
	n, _ := strconv.ParseInt(string(pages), 10, 64) // written by the kernel
	return n * int64(os.Getpagesize())
}

// memory returns the bytes of memory of all processes of the container, page tables included: a page of zeros that is
// only read is no memory of the process, but needs them. It counts pages that processes share after a fork for each. Pages
// of files do not count.
func memory() int64 {
	statuses, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is valid
	total := int64(0)
	for _, path := range statuses {
		text, err := os.ReadFile(path)
		if err != nil { // it has ended
			continue
		}
		for line := range bytes.Lines(text) {
			name, value, _ := bytes.Cut(line, []byte(":"))
			switch string(name) {
			case "RssAnon", "RssShmem", "VmPTE":
			default:
				continue
			}
			if fields := bytes.Fields(value); len(fields) > 0 {
				kib, _ := strconv.ParseInt(string(fields[0]), 10, 64) // written by the kernel
				total += kib << 10
			}
		}
	}
	return total
}

// readTree reads what writeTree wrote.
func readTree(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.Mkdir(h.Name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, h.Name)
		default:
			err = readFile(archive, root, h)
		}
		if err != nil {
			return err
		}
	}
}

func readFile(archive *tar.Reader, root *os.Root, h *tar.Header) error {
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(h.Mode&0o777|0o600))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, archive)
	return errors.Join(err, f.Close())
}
