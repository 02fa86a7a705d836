// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostile is the first argument of this test program when it attacks its container. In a container it is the file
// program.
const hostile = "hostile"

// attacks are the attacks. Each prints what it achieves.
var attacks = map[string]func(args []string){
	"dial":    dial,
	"memory":  hold,
	"thread":  leave,
	"watch":   watch,
	"tables":  table,
	"tcp":     flood,
	"sockets": fill,
	"passed":  pass,
	"locks":   lock,
	"sleep":   func([]string) { select {} },
	"trace":   trace,
	"calls":   calls,
	"escape":  escape,
}

// hostileMain attacks, if the arguments of this process say so. It does not return then.
func hostileMain() {
	if len(os.Args) < 3 || os.Args[1] != hostile {
		return
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // otherwise Go ends processes that wait forever
	attacks[os.Args[2]](os.Args[3:])
	os.Exit(0)
}

// dial prints the addresses that it reaches: "tcp 127.0.0.1:1".
func dial(addresses []string) {
	for _, a := range addresses {
		network, address, _ := strings.Cut(a, " ")
		conn, err := net.DialTimeout(network, address, time.Minute)
		if err == nil {
			_, err = conn.Write([]byte("x")) // UDP has no connection
		}
		if err == nil {
			fmt.Println("reached", a)
		}
	}
}

// fill has children that fill the buffers of sockets, until they are killed.
func fill(args []string) {
	if children, _ := strconv.Atoi(args[0]); children > 0 {
		for range children {
			if err := exec.Command(os.Args[0], hostile, "sockets", "0").Start(); err != nil {
				fmt.Println(err)
			}
		}
		select {}
	}
	block := make([]byte, 4<<10)
	for {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			select {} // no more files
		}
		for err == nil {
			_, err = syscall.Write(pair[0], block)
		}
	}
}

// hold has children that hold a number of bytes each, until it is killed.
func hold(args []string) {
	children, _ := strconv.Atoi(args[0])
	size, _ := strconv.Atoi(args[1])
	for range children {
		if err := exec.Command(os.Args[0], hostile, "memory", "0", args[1]).Start(); err != nil {
			fmt.Println(err)
		}
	}
	held := make([]byte, size)
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	fmt.Println("holds", size)
	select {}
}

// leave ends the first thread of this process, which then has no memory in its own status, and holds a number of bytes.
func leave(args []string) {
	go hold(append([]string{"0"}, args...))
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

func init() {
	if len(os.Args) > 2 && os.Args[1] == hostile && os.Args[2] == "thread" {
		runtime.LockOSThread() // leave runs on the leader
	}
}

// watch watches a descriptor with many epoll instances.
func watch([]string) {
	e, _ := unix.Eventfd(0, 0)
	var fds []int
	for range 2900 {
		d, err := unix.Dup(e)
		if err != nil {
			break
		}
		fds = append(fds, d)
	}
	n := 0
	var last error
	for last == nil {
		p, err := unix.EpollCreate1(0)
		if err != nil {
			last = err
			break
		}
		for _, d := range fds {
			if err := unix.EpollCtl(p, unix.EPOLL_CTL_ADD, d, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(d)}); err != nil {
				last = err
				break
			}
			n++
		}
	}
	fmt.Println("watches", n, last)
	select {}
}

// flood opens connections to itself and writes to them what nothing reads.
func flood(args []string) {
	connections, _ := strconv.Atoi(args[0])
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	held := 0
	var open []net.Conn
	for range connections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			fmt.Println(err)
			break
		}
		open = append(open, c)
	}
	block := make([]byte, 256<<10)
	for _, c := range open {
		for {
			_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			n, err := c.Write(block)
			if held += n; err != nil {
				break
			}
		}
	}
	fmt.Println("holds", held)
	select {}
}

// table has the kernel make page tables of a size: it reads one page of zeros for each.
func table(args []string) {
	size, _ := strconv.Atoi(args[0])
	const chunk, covered = 1 << 30, 2 << 20 // bytes that a page table covers
	for made := 0; made < size; {
		zeros, err := syscall.Mmap(-1, 0, chunk, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
		if err != nil {
			fmt.Println(err)
			break
		}
		_ = syscall.Madvise(zeros, unix.MADV_NOHUGEPAGE)
		for i := 0; i < chunk; i += covered {
			if zeros[i] != 0 {
				return
			}
			made += os.Getpagesize()
		}
	}
	fmt.Println("holds", size)
	select {}
}

// pass fills the buffers of sockets that no process has open: they wait to be received.
func pass([]string) {
	block := make([]byte, 4<<10)
	for {
		carrier, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			fmt.Println(err)
			break
		}
		for err == nil {
			var pair [2]int
			if pair, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0); err != nil {
				break
			}
			for err == nil {
				_, err = syscall.Write(pair[0], block)
			}
			err = syscall.Sendmsg(carrier[0], []byte("x"), syscall.UnixRights(pair[:]...), nil, 0)
			_ = syscall.Close(pair[0])
			_ = syscall.Close(pair[1])
		}
		if !errors.Is(err, syscall.EAGAIN) { // of the carrier, which is full
			fmt.Println(err)
			break
		}
	}
	select {}
}

// lock locks every other byte of files. The kernel has an object for each.
func lock(args []string) {
	files, _ := strconv.Atoi(args[0])
	var open []*os.File
	for range files {
		f, err := os.CreateTemp("", "")
		if err != nil {
			fmt.Println(err)
			return
		}
		open = append(open, f)
		for i := 1000; i > 0; i-- { // the kernel looks for the place from the first one
			if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(2 * i), Len: 1}); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	fmt.Println("holds the locks of", len(open), "files")
	select {}
}

// trace prints the processes that it may trace or whose memory it may read.
func trace(pids []string) {
	for _, text := range pids {
		pid, _ := strconv.Atoi(text)
		if unix.PtraceAttach(pid) == nil {
			fmt.Println("traces", pid)
		}
		if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err == nil {
			fmt.Println("opens the memory of", pid)
			_ = f.Close()
		}
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil {
			fmt.Println("reads the environment of", pid, len(text))
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			if _, err := unix.PidfdGetfd(fd, controlFD, 0); err == nil {
				fmt.Println("takes a descriptor of", pid)
			}
		}
	}
}

// calls prints the system calls that succeed.
func calls([]string) {
	name, _ := unix.BytePtrFromString("x")
	raw := func(call uintptr, arguments ...uintptr) error {
		arguments = append(arguments, 0, 0, 0, 0, 0, 0)
		_, _, errno := unix.Syscall6(call, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5])
		if errno != 0 {
			return errno
		}
		return nil
	}
	var pipes [2][2]int
	_, _ = unix.Pipe2(pipes[0][:], unix.O_NONBLOCK), unix.Pipe2(pipes[1][:], unix.O_NONBLOCK)
	_, _ = unix.Write(pipes[0][1], []byte("text"))
	file, _ := os.Create("/tmp/calls")
	_, _ = file.WriteString("text")
	var processors unix.CPUSet
	_ = unix.SchedGetaffinity(0, &processors)
	for what, call := range map[string]func() error{
		"vsock":   func() error { _, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0); return err },
		"packet":  func() error { _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); return err },
		"raw":     func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP); return err },
		"mptcp":   func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP); return err },
		"sctp":    func() error { _, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP); return err },
		"netlink": func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC); return err },
		"pair": func() error {
			if _, err := unix.Socketpair(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // which the kernel made
				return err
			}
			return nil
		},
		"table":     func() error { return unix.Unshare(unix.CLONE_FILES) },
		"range":     func() error { return unix.CloseRange(1000, 1001, unix.CLOSE_RANGE_UNSHARE) },
		"clone3":    func() error { return missing(raw(unix.SYS_CLONE3, 0, 0)) },
		"memfd":     func() error { _, err := unix.MemfdCreate("x", 0); return err },
		"shm":       func() error { _, err := unix.SysvShmGet(0, 4096, 0o600|unix.IPC_CREAT); return err },
		"keyring":   func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false); return err },
		"namespace": func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"mount":     func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
		"remount":   func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"unmount":   func() error { return unix.Unmount("/usr", unix.MNT_DETACH) },
		"chroot":    func() error { return unix.Chroot("/tmp") },
		"root":      func() error { return unix.Setuid(0) },
		"hostname":  func() error { return unix.Sethostname([]byte("x")) },
		"priority":  func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) },
		"limit":     func() error { return syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}) },
		"oom":       func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0) },
		"sysctl":    func() error { return os.WriteFile("/proc/sys/kernel/core_pattern", []byte("x"), 0) },
		"device":    func() error { return unix.Mknod("/tmp/disk", unix.S_IFBLK|0o600, 0xfd00) },
		"semaphore": func() error { return raw(unix.SYS_SEMGET, 0, 1, 0o600) },
		"message":   func() error { return raw(unix.SYS_MSGGET, 0, 0o600) },
		"fanotify":  func() error { _, err := unix.FanotifyInit(unix.FAN_REPORT_FID, 0); return err },
		"landlock":  func() error { return raw(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION) },
		"seccomp": func() error {
			return raw(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(new(uint32))))
		},
		"filter": func() error {
			all := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}}
			return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&all)), 0, 0)
		},
		"events":    func() error { return raw(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(new(uintptr)))) },
		"vmsplice":  func() error { _, err := unix.Vmsplice(pipes[0][1], []unix.Iovec{{Base: name, Len: 1}}, 0); return err },
		"tee":       func() error { _, err := unix.Tee(pipes[0][0], pipes[1][1], 1, 0); return err },
		"splice":    func() error { _, err := unix.Splice(pipes[0][0], nil, pipes[1][1], nil, 1, 0); return err },
		"sendfile":  func() error { _, err := unix.Sendfile(pipes[1][1], int(file.Fd()), new(int64), 1); return err },
		"attribute": func() error { return unix.Setxattr("/tmp/calls", "user.x", []byte("x"), 0) },
		"list":      func() error { return unix.Fsetxattr(int(file.Fd()), "system.posix_acl_access", accessList, 0) },
		"shared": func() error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANON)
			return err
		},
		"locked": func() error { return unix.Mlock(make([]byte, 4096)) },
		"zeros": func() error {
			f, err := os.Open("/dev/zero")
			if err == nil {
				_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			}
			return err
		},
		"buffer": func() error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			before, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*before); err != nil {
				return fmt.Errorf("programs expect to succeed: %w", err)
			}
			if after, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); after == before {
				return errors.New("it has no effect")
			}
			return nil
		},
		"limit of init":    func() error { return unix.Prlimit(1, unix.RLIMIT_NOFILE, new(unix.Rlimit), nil) },
		"affinity of init": func() error { return unix.SchedSetaffinity(1, &processors) },
		"policy of init": func() error {
			return raw(unix.SYS_SCHED_SETSCHEDULER, 1, unix.SCHED_IDLE, uintptr(unsafe.Pointer(new(int64))))
		},
		"parameter of init":    func() error { return raw(unix.SYS_SCHED_SETPARAM, 1, uintptr(unsafe.Pointer(new(int64)))) },
		"attributes of init":   func() error { return unix.SchedSetAttr(1, &unix.SchedAttr{Size: unix.SizeofSchedAttr}, 0) },
		"priority of init":     func() error { return unix.Setpriority(unix.PRIO_PROCESS, 1, 19) },
		"priority of the user": func() error { return unix.Setpriority(unix.PRIO_USER, 0, 19) },
		"input of init":        func() error { return raw(unix.SYS_IOPRIO_SET, 1, 1, 3<<13) },
		"input of the user":    func() error { return raw(unix.SYS_IOPRIO_SET, ioprioUser, 0, 3<<13) },
		"calls of this process": func() error {
			err := errors.Join(unix.SchedSetaffinity(0, &processors), unix.Setpriority(unix.PRIO_PROCESS, 0, 19), raw(unix.SYS_IOPRIO_SET, 1, 0, 3<<13))
			if err == nil {
				return errors.New("programs expect to succeed")
			}
			fmt.Println(err)
			return nil
		},
		"uring": func() error {
			_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(name)), 0)
			if errno == unix.ENOSYS {
				return errno
			}
			return nil
		},
	} {
		if err := call(); err == nil {
			fmt.Println("succeeds:", what)
		}
	}
}

// missing returns the error of a system call that does not exist, and nil for any other.
func missing(err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return err
	}
	return nil
}

// accessList is an access list with a second user: version, and tag, permission and id of each entry.
var accessList = []byte{
	2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 0xe8, 3, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
}

// escape starts a process in a session of its own, as a child of init, that would survive this process and its group.
func escape(args []string) {
	if len(args) == 1 {
		cmd := exec.Command(os.Args[0], hostile, "escape", args[0], "orphan")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := errors.Join(cmd.Start(), cmd.Wait()); err != nil {
			fmt.Println(err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], hostile, "sleep", args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
	}
}
