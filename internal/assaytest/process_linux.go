// SPDX-License-Identifier: Apache-2.0

package assaytest

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill the process when this one ends, unless the command has
// a signal of its own for that.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}
