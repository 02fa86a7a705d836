// SPDX-License-Identifier: Apache-2.0

package pgtest

import "syscall"

// endWithParent makes the server stop when the thread that starts it ends.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
