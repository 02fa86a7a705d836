// SPDX-License-Identifier: Apache-2.0

// Package worker reviews repositories and makes changes of them in a process of its own, whose time and memory the caller
// limits.
package worker
