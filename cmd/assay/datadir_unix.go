// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// maskFiles sets the umask, so that files of this process, including files of libraries, are not accessible to group
// and others.
func maskFiles() { syscall.Umask(privateUmask) }
