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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initArgument is the first argument of the first process of a container.
const initArgument = "agent-init"

const (
	controlFD     = 3
	watchInterval = 50 * time.Millisecond
	portInterval  = 10 * time.Millisecond
	portDelay     = 5 * time.Second
)

// Upper bounds of kernel memory per object, for objects whose size the kernel does not report.
const (
	bytesPerFile       = 2 << 10 // of a file system in memory, even if it is empty; counted by the limit of the file system
	bytesPerDescriptor = 8 << 10 // two pages of a pipe; the first 64 MiB of a user's pipes may have more
	bytesPerSocket     = 256 << 10
)

const (
	maxReserve = 512 << 20 // bytes of the machine's memory that stay available
	minObjects = 512 << 20 // bytes of initSpec.Objects
	minWatches = 256 << 20 // bytes of initSpec.Watches

	bytesPerWatch = 200 // of a descriptor that epoll watches
)

// initSpec configures the first process of a container.
type initSpec struct {
	Script  string
	Child   child
	Memory  int64
	Objects int64 // bytes of the kernel's objects that other programs of the machine may add
	Watches int64 // bytes of the kernel's objects that end the script, whichever program adds them; 0: no limit
	Ports   []int
}

// runInit is the main function of the first process of a container. The kernel protects it from signals of the other
// processes, and kills them when it ends.
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
	before := machineMemory()
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
		exit, err := spec.run(input, output, before)
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
		l, err := listen(port)
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

// listen listens on a TCP port of the loopback interface. While the port is in use, it retries for portDelay: each child
// that the server forks holds the listener of the previous tree until it executes its program.
func listen(port int) (net.Listener, error) {
	tick := time.NewTicker(portInterval)
	defer tick.Stop()
	for end := time.Now().Add(portDelay); ; <-tick.C {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
			return l, err
		}
	}
}

// run copies a tree, runs the script and watches its memory.
func (s *initSpec) run(tree io.Reader, output *os.File, before machine) (Exit, error) {
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
			if limit := s.exceeded(before); limit != "" {
				return Exit{Code: 128 + int(unix.SIGKILL), Limit: limit}, nil
			}
		}
	}
}

// cleanUp kills all other processes and removes their files, except files in HomeDir. It leaves a file that it cannot
// remove. Copying the next tree fails if that file is in the way.
func cleanUp() {
	_ = syscall.Kill(-1, syscall.SIGKILL) // fails if there is none
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	for _, pattern := range []string{tempDir + "/*", tempDir + "/.*", sharedDir + "/*", sharedDir + "/.*"} {
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

// exceeded returns the limit that the container exceeds, or "". before is the memory of the machine before the first script.
func (s *initSpec) exceeded(before machine) string {
	for dir, size := range map[string]int64{tempDir: s.Child.File, sharedDir: sharedSize} {
		var files unix.Statfs_t
		if err := unix.Statfs(dir, &files); err == nil && files.Files-files.Ffree > uint64(size)/bytesPerFile {
			return "files"
		}
	}
	return s.exceededMemory(before, machineMemory())
}

func (s *initSpec) exceededMemory(before, now machine) string {
	switch grown := now.objects - before.objects; {
	case s.Memory <= 0:
	case now.total == 0:
		return "memory of the machine" // unknown
	case s.Watches > 0 && grown > s.Watches:
		return "memory"
	case memory(s.Memory/8)+max(0, grown-s.Objects) > s.Memory:
		return "memory"
	case now.scarce():
		return "memory of the machine"
	}
	return ""
}

// machine is the memory of the machine in bytes.
type machine struct {
	total, available int64
	objects          int64 // of the kernel, such as locks of files, mappings and watches, which it counts for no process
}

func machineMemory() machine {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return machine{}
	}
	return parseMachine(text)
}

func parseMachine(meminfo []byte) machine {
	value := func(name string) int64 { return number(meminfo, name) << 10 }
	return machine{total: value("MemTotal:"), available: value("MemAvailable:"), objects: value("SUnreclaim:")}
}

// watchMemory returns half of the kernel memory in bytes for all epoll watches of a user, at least minWatches, which leaves
// room for other programs of the machine. It returns 0 if the limit of watches is unknown. A container and the server have
// the same user, and a server without free watches cannot accept connections.
func watchMemory() int64 {
	text, err := os.ReadFile("/proc/sys/fs/epoll/max_user_watches")
	if err != nil {
		return 0
	}
	return max(number(text, "")*bytesPerWatch/2, minWatches)
}

// scarce reports whether the machine has almost no memory left, whichever program uses it.
func (m machine) scarce() bool { return m.available < min(m.total/16, maxReserve) }

// memory returns the memory of the container in bytes: the memory of its processes, and an upper bound of the kernel's
// memory for their descriptors and sockets. It reads the queues of TCP connections only if the machine's TCP memory exceeds
// enough, because that takes milliseconds.
func memory(enough int64) (total int64) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range processes {
		total += processMemory(processStatus(dir))
	}
	sockets, _ := os.ReadFile("/proc/net/sockstat")
	total += number(sockets, "sockets: used") * bytesPerSocket
	if tcpMemory(sockets) <= enough {
		return total
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // there may be no IPv6
		total += queued(text)
	}
	return total
}

// processStatus returns the status of a process, or nothing if it has ended. A process whose first thread has ended has no
// memory and descriptors in its own status, but in that of any other thread.
func processStatus(dir string) []byte {
	text, _ := os.ReadFile(dir + "/status")
	if number(text, "\nThreads:") < 2 || bytes.Contains(text, []byte("\nVmPTE:")) {
		return text
	}
	threads, _ := filepath.Glob(dir + "/task/[0-9]*/status") // the pattern is valid
	for _, path := range threads {
		if thread, _ := os.ReadFile(path); bytes.Contains(thread, []byte("\nVmPTE:")) {
			return thread
		}
	}
	return text
}

// processMemory returns the memory of a process in bytes from its status. It includes page tables: zero pages that are only
// read have page tables, but are not memory of the process. Pages that processes share after a fork count for each process.
// Pages of files in memory count here too; pages of other files do not.
func processMemory(status []byte) int64 {
	var kib int64
	for _, name := range []string{"RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"} {
		kib += number(status, "\n"+name) // the name of the process is the first line, and may be any text of one line
	}
	return kib<<10 + number(status, "\nFDSize:")*bytesPerDescriptor
}

// queued returns the bytes in the queues of the container's TCP connections. The buffers of other sockets have the default
// sizes, but the kernel lets a TCP connection queue tens of megabytes. When the queues hold a tenth of the machine's memory,
// all TCP connections of the machine stall, including the server's.
func queued(table []byte) (total int64) {
	for line := range bytes.Lines(table) {
		if fields := bytes.Fields(line); len(fields) > 4 { // number, local and remote address, state, queues
			sent, received, _ := bytes.Cut(fields[4], []byte(":"))
			for _, queue := range [][]byte{sent, received} {
				n, _ := strconv.ParseInt(string(queue), 16, 64) // 0 in the header
				total += n
			}
		}
	}
	return total
}

// tcpMemory returns the bytes of all TCP connections of the machine: "TCP: inuse 9 orphan 0 tw 40 alloc 9 mem 346".
func tcpMemory(sockstat []byte) int64 {
	_, tcp, _ := bytes.Cut(sockstat, []byte("\nTCP:"))
	return number(tcp, " mem") * int64(os.Getpagesize())
}

// number returns the number that follows a text in a file of the kernel, or 0.
func number(file []byte, text string) int64 {
	_, rest, _ := bytes.Cut(file, []byte(text))
	rest = bytes.TrimLeft(rest, " \t")
	end := 0
	for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
		end++
	}
	n, _ := strconv.ParseInt(string(rest[:end]), 10, 64) // written by the kernel
	return n
}

// readTree extracts an archive that writeTree wrote to dir.
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
