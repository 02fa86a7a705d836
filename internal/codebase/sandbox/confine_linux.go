// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"assay/internal/lists"
)

// restrictFiles lets this process and its children write to the directories of a container only, if the kernel has
// Landlock. The mounts of the container say the same; Landlock also keeps them as they are.
func restrictFiles() error {
	kernel := landlock.V6.BestEffort()
	if err := kernel.RestrictPaths(landlock.RODirs("/"), landlock.RWDirs(tempDir, "/dev").WithRefer().WithIoctlDev()); err != nil {
		return fmt.Errorf("restrict the file system: %w", err)
	}
	if err := kernel.RestrictScoped(); err != nil {
		return fmt.Errorf("restrict signals and sockets: %w", err)
	}
	return nil
}

// restrictLimits keeps this process and its children from raising their priority and from locking memory: the kernel
// counts pages that are sent without a copy as locked, whatever they take.
func restrictLimits() error {
	for _, resource := range []int{unix.RLIMIT_NICE, unix.RLIMIT_RTPRIO, unix.RLIMIT_MEMLOCK} {
		if err := lower(resource, 0); err != nil {
			return fmt.Errorf("set limit %d: %w", resource, err)
		}
	}
	return nil
}

// auditArch maps each GOARCH that restrictCalls supports to its audit architecture.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

const (
	x32        = 0x40000000 // bit of the system calls of another ABI of amd64
	ioprioUser = 3          // IOPRIO_WHO_USER
)

// deniedCalls are the system calls that namespaces and limits do not cover, by the error that makes programs do without.
var deniedCalls = map[syscall.Errno][]uint32{
	// Keys of the kernel are shared with the server's session, and events of asynchronous input with the machine. Memory of
	// memfd, System V segments, semaphores and messages belongs to no process. io_uring bypasses filters. Rules of Landlock
	// and filters can be kept without end, as their descriptors can. The flags of clone3 are not visible to a filter, and
	// programs use clone instead.
	unix.ENOSYS: {
		unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_CLONE3, unix.SYS_FANOTIFY_INIT, unix.SYS_IO_SETUP, unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_LANDLOCK_CREATE_RULESET,
		unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_MSGGET, unix.SYS_PERF_EVENT_OPEN, unix.SYS_REQUEST_KEY, unix.SYS_SECCOMP, unix.SYS_SEMGET,
		unix.SYS_SHMGET, unix.SYS_USERFAULTFD,
	},
	// A byte in a pipe or socket would keep the page that it comes from, and 2 MiB if that is a huge one.
	unix.EINVAL: {unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_VMSPLICE},
	// The file system in memory does not count access lists of 100 KB.
	unix.EOPNOTSUPP: {unix.SYS_FSETXATTR, unix.SYS_LSETXATTR, unix.SYS_SETXATTR, unix.SYS_SETXATTRAT},
}

// ownCalls are the system calls that processes may use for themselves only, which is process 0. Others, such as the first
// process of the container, have the same user.
var ownCalls = []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER}

// families are the socket families that belong to a network namespace. Sockets of a virtual machine (AF_VSOCK) do not.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// protocols are the allowed protocols of sockets. For other protocols, the kernel would load rarely used modules.
var protocols = []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP}

// sharedMemory are the flags of shared memory without a file. It belongs to no process when it is not mapped completely.
const sharedMemory = unix.MAP_SHARED | unix.MAP_ANONYMOUS

// deny returns the instruction that ends a system call with an error number.
func deny(errno syscall.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// loadArgument loads an argument of the system call, from 0: the low half of it in seccomp_data.
func loadArgument(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: 16 + 8*n, Size: 4} }

// on appends the instructions for one system call. The last one must return the result of the filter.
func on(program []bpf.Instruction, call uint32, then ...bpf.Instruction) []bpf.Instruction {
	return append(append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: uint8(len(then))}), then...)
}

// oneOf appends a check that the loaded value is one of values. Otherwise, the system call fails with errno.
func oneOf(program []bpf.Instruction, values []uint32, errno syscall.Errno) []bpf.Instruction {
	for i, v := range values {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return append(program, deny(errno))
}

// restrictCalls filters the system calls of this thread, which must not change until it executes another program.
func restrictCalls() error {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("filter system calls: %s is not supported", runtime.GOARCH)
	}
	const number, architecture = 0, 4 // offsets in seccomp_data
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: architecture, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		deny(unix.ENOSYS),
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		deny(unix.ENOSYS),
	}
	for errno, calls := range deniedCalls {
		for _, call := range calls {
			program = on(program, call, deny(errno))
		}
	}
	for _, call := range ownCalls {
		program = on(program, call,
			loadArgument(0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
			deny(unix.EPERM),
			allow)
	}
	// A priority is that of a process, a group or a user, as the first argument says. The container has one user.
	for call, user := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_USER, unix.SYS_IOPRIO_SET: ioprioUser} {
		program = on(program, call,
			loadArgument(0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: user, SkipTrue: 2},
			loadArgument(1),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
			deny(unix.EPERM),
			allow)
	}
	program = on(program, unix.SYS_MMAP,
		loadArgument(3),
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.MAP_HUGETLB, SkipTrue: 1},
		deny(unix.ENOMEM), // huge pages are reserved for other programs
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: sharedMemory},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: sharedMemory, SkipTrue: 1},
		deny(unix.EPERM),
		allow)
	program = on(program, unix.SYS_PRCTL,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PR_SET_SECCOMP, SkipTrue: 1},
		deny(unix.EINVAL), // as SYS_SECCOMP
		allow)
	// Socket buffers keep their default sizes: ignore requests for other sizes. Programs do not depend on them.
	program = on(program, unix.SYS_SETSOCKOPT,
		loadArgument(1),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOL_SOCKET, SkipTrue: 3},
		loadArgument(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SO_SNDBUF, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SO_RCVBUF, SkipTrue: 1},
		allow,
		deny(0)) // succeeds
	// The kernel rejects socket pairs of other families only after it has loaded their modules, and creates pairs of TIPC.
	program = on(program, unix.SYS_SOCKETPAIR,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1},
		deny(unix.EAFNOSUPPORT),
		allow)
	// The threads of a process must share one descriptor table. The memory of further tables would not be counted.
	program = on(program, unix.SYS_CLONE,
		loadArgument(0),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.CLONE_THREAD | unix.CLONE_FILES},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.CLONE_THREAD, SkipTrue: 1},
		deny(unix.EINVAL),
		allow)
	program = on(program, unix.SYS_UNSHARE,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.CLONE_FILES, SkipTrue: 1},
		deny(unix.EPERM),
		allow)
	program = on(program, unix.SYS_CLOSE_RANGE,
		loadArgument(2),
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.CLOSE_RANGE_UNSHARE, SkipTrue: 1},
		deny(unix.EINVAL),
		allow)
	program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKET, SkipTrue: 1}, allow)
	program = oneOf(append(program, loadArgument(0)), families, unix.EAFNOSUPPORT)
	program = oneOf(append(program, loadArgument(2)), protocols, unix.EPROTONOSUPPORT)
	raw, err := bpf.Assemble(append(program, allow))
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	filter := lists.Map(raw, func(r bpf.RawInstruction) unix.SockFilter {
		return unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	})
	code := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&code)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}
