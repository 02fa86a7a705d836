// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
	"io"
	"log/slog"
)

// mask is the printed form of every secret.
const mask = "[redacted]"

// Secret is a credential in clear text. fmt, slog, JSON, XML, YAML, text and gob print it masked. The conversion
// string(s) returns its value, so that all uses can be found by a search. Three cases bypass the mask: the verbs %p
// and %w, which vet rejects, and the key of a map in encoding/json.
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

// Format writes the mask for every verb and flag.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// LogValue returns the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText returns the mask.
func (Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalBinary returns the mask.
func (Secret) MarshalBinary() ([]byte, error) { return []byte(mask), nil }
