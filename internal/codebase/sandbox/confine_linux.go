// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
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

// auditArch are the architectures whose system calls restrictCalls knows.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

const x32 = 0x40000000 // bit of the system calls of another ABI of amd64

// deniedCalls are system calls that namespaces and limits do not cover: keys of the kernel are shared with the server's
// session, memory of memfd and System V segments belongs to no process, and io_uring bypasses filters.
var deniedCalls = []uint32{
	unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_REQUEST_KEY, unix.SYS_SHMGET, unix.SYS_USERFAULTFD,
}

// families are the socket families that belong to a network namespace. Sockets of a virtual machine (AF_VSOCK) do not.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// protocols are those of sockets. For others, the kernel loads code that few use.
var protocols = []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP}

// restrictCalls filters the system calls of this thread, which must not change until it executes another program.
func restrictCalls() error {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("filter system calls: %s is not supported", runtime.GOARCH)
	}
	// Offsets of seccomp_data: the number, the architecture, the low halves of the first and the third argument.
	const number, architecture, argument, third = 0, 4, 16, 32
	deny := func(errno uint32) bpf.Instruction { return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | errno} }
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: architecture, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		deny(uint32(unix.ENOSYS)),
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		deny(uint32(unix.ENOSYS)),
	}
	for _, call := range deniedCalls {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, deny(uint32(unix.ENOSYS)))
	}
	program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKET, SkipTrue: 1}, allow, bpf.LoadAbsolute{Off: argument, Size: 4})
	for i, family := range families {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipTrue: uint8(len(families) - i)}) // to the protocol
	}
	program = append(program, deny(uint32(unix.EAFNOSUPPORT)), bpf.LoadAbsolute{Off: third, Size: 4})
	for _, protocol := range protocols {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protocol, SkipTrue: 1}, allow)
	}
	raw, err := bpf.Assemble(append(program, deny(uint32(unix.EPROTONOSUPPORT))))
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	code := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&code)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}
