// SPDX-License-Identifier: Apache-2.0

package assaytest

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill the process when this one ends.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
