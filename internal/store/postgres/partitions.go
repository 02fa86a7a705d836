// SPDX-License-Identifier: Apache-2.0

package postgres

import "sync"

// partitions remembers which partitions there are.
type partitions struct {
	mu    sync.Mutex
	known map[string]bool
}
