// SPDX-License-Identifier: Apache-2.0

package inspect

import "fmt"

// CompatibleSince is the name under which the migrations write, in the store's table
// memory, the oldest version of the schema whose programs can work on the store. A
// migration that such programs cannot work with raises it to its own version.
const CompatibleSince = "compatible_since"

// Schema is how far the schema of a store is, beside what this program knows.
type Schema struct {
	Version         int64 `json:"version"`          // of the store; 0: it has no schema yet
	Known           int64 `json:"known"`            // the newest that this program knows
	CompatibleSince int64 `json:"compatible_since"` // 0: the store does not say, so its version alone
}

// Check returns a *SchemaError when this program cannot work on the store.
func (s Schema) Check() error {
	if s.Version == s.Known || s.Version > s.Known && s.CompatibleSince > 0 && s.CompatibleSince <= s.Known {
		return nil
	}
	return &SchemaError{s}
}

// SchemaError says that a program cannot work on a store because of its schema.
type SchemaError struct{ Schema }

// Older tells whether a migration makes the store fit; otherwise a newer program
// has to be used.
func (e *SchemaError) Older() bool { return e.Version < e.Known }

// Error says what to do.
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
