// SPDX-License-Identifier: Apache-2.0

// Package worker reviews and changes repositories in a separate process, whose time and memory the caller limits.
package worker
