// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
	"io"
	"log/slog"
)

// mask is what a secret looks like wherever it is printed.
const mask = "[redacted]"

// Secret is a credential in clear. It prints masked under every verb of fmt, in
// slog, JSON, XML, YAML, text and gob; string(s) is the way to its value, so that
// each place that takes it out can be found. Three things do not ask
// the type: the verbs %p and %w, which vet refuses here, and encoding/json for the
// key of a map.
type Secret string

var (
	_ fmt.Formatter  = Secret("")
	_ fmt.Stringer   = Secret("")
	_ fmt.GoStringer = Secret("")
	_ slog.LogValuer = Secret("")
)

// String returns the mask.
func (Secret) String() string { return mask }

// GoString returns the mask.
func (Secret) GoString() string { return mask }

// Format writes the mask, whatever the verb and its flags.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// LogValue returns the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText returns the mask.
func (Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalBinary returns the mask.
func (Secret) MarshalBinary() ([]byte, error) { return []byte(mask), nil }
