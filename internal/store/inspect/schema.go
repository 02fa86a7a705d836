// SPDX-License-Identifier: Apache-2.0

package inspect

import "fmt"

// CompatibleSince is the key in table memory of the oldest schema version that a program
// must know to work on the store. A migration that is incompatible with older programs
// sets it to its own version.
const CompatibleSince = "compatible_since"

// Schema is the version of a store's schema, compared with this program's.
type Schema struct {
	Version         int64 `json:"version"`          // of the store; 0: no schema yet
	Known           int64 `json:"known"`            // the newest version that this program knows
	CompatibleSince int64 `json:"compatible_since"` // 0: unknown, so Version applies
}

// Check returns a *SchemaError if this program cannot work on the store.
func (s Schema) Check() error {
	if s.Version == s.Known || s.Version > s.Known && s.CompatibleSince > 0 && s.CompatibleSince <= s.Known {
		return nil
	}
	return &SchemaError{s}
}

// SchemaError reports that a program does not support the schema of a store.
type SchemaError struct{ Schema }

// Older reports whether a migration makes the store usable. Otherwise a newer program is
// required.
func (e *SchemaError) Older() bool { return e.Version < e.Known }

// Error names the remedy.
func (e *SchemaError) Error() string {
	switch {
	case e.Version == 0:
		return fmt.Sprintf("the store has no schema yet, this program needs version %d; migrate the store first", e.Known)
	case e.Older():
		return fmt.Sprintf("the store has schema version %d, this program needs %d; migrate the store first", e.Version, e.Known)
	case e.CompatibleSince > e.Known:
		return fmt.Sprintf("the store has schema version %d, for programs that know %d or newer, and this one knows %d; use a newer program, or restore a backup",
			e.Version, e.CompatibleSince, e.Known)
	default:
		return fmt.Sprintf("the store has schema version %d, this program knows %d; use a newer program, or restore a backup", e.Version, e.Known)
	}
}
