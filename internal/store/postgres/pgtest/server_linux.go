// SPDX-License-Identifier: Apache-2.0

package pgtest

import "syscall"

// endWithParent makes the server stop when the thread that starts it ends.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }

// memoryDir returns a directory in memory if it has room for a server, otherwise "".
func memoryDir() string {
	const (
		dir   = "/dev/shm"
		tmpfs = 0x01021994
		room  = 3 << 30
	)
	var s syscall.Statfs_t
	err := syscall.Statfs(dir, &s)
	if err != nil || s.Type != tmpfs || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	return dir
}
