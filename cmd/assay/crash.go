// SPDX-License-Identifier: Apache-2.0

//go:build !faults || !unix

package main

import "assay"

// runStore returns the store for runs. The build for fault tests wraps it.
func runStore(s assay.CodebaseStore) assay.CodebaseStore { return s }
