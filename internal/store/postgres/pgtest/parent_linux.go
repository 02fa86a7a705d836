// SPDX-License-Identifier: Apache-2.0

package pgtest

import "syscall"

// endWithParent has the server stop at once when the thread that starts it ends.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
