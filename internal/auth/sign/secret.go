// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"

	"assay/internal/auth"
)

// secretSize is the length of a secret in bytes.
const secretSize = 32

var errSecretForm = errors.New("not 32 random bytes, as they are, in hexadecimal or in base64")

// ParseSecret reads what a file of the secret holds that private keys are encrypted
// with: 32 random bytes as they are, or as text in hexadecimal or base64 (either
// alphabet, with padding or without) that white space may surround. A text of 32
// characters is refused: it is a password and no random bytes. Errors hold nothing of it.
func ParseSecret(file []byte) (auth.Secret, error) {
	if len(file) == secretSize {
		if isText(file) {
			return "", errSecretForm
		}
		return auth.Secret(file), nil
	}
	text := string(bytes.TrimSpace(file))
	if b, err := hex.DecodeString(text); err == nil && len(b) == secretSize {
		return auth.Secret(b), nil
	}
	text = strings.TrimRight(text, "=")
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := alphabet.Strict().DecodeString(text); err == nil && len(b) == secretSize {
			return auth.Secret(b), nil
		}
	}
	return "", errSecretForm
}

// isText tells whether all bytes are ASCII that can be typed: of 32 random bytes that
// happens once in 10^13 times.
func isText(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > '~') && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
