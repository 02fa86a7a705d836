// SPDX-License-Identifier: Apache-2.0

package main

import "os"

// collector returns the address of the collector that the environment names.
func collector() string { return os.Getenv("COLLECTOR") }
