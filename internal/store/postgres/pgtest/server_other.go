// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package pgtest

import "syscall"

// endWithParent does nothing: only Linux supports it.
func endWithParent(*syscall.SysProcAttr) {}

// memoryDir returns "": only Linux has a known directory in memory.
func memoryDir() string { return "" }
