// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"testing"

	"assay/internal/store/storetest"
)

func TestExpirePassesOver(t *testing.T) {
	s := open(t, Config{})
	storetest.TestExpirePassesOver(t, s, engine{s}, "sqlite: ")
}

func TestEngine(t *testing.T) {
	s := open(t, Config{})
	storetest.TestEngine(t, engine{s})
}

func TestExpireChunks(t *testing.T) {
	s := open(t, Config{})
	storetest.TestExpireChunks(t, s, engine{s}, &dialect)
}

func TestPatchChunks(t *testing.T) {
	s := open(t, Config{})
	storetest.TestPatchChunks(t, s, engine{s}, &dialect)
}
