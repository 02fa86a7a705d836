// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// maskFiles has files that the process makes closed to group and others, also those that
// libraries make.
func maskFiles() { syscall.Umask(closed) }
