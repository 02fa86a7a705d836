// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"assay/internal/auth"
)

// secretSize is the length of a secret in bytes.
const secretSize = 32

var errSecretForm = errors.New("not 32 random bytes, as they are, in hexadecimal or in base64")

// ParseSecret parses the contents of a secret file: 32 random bytes, either raw or as hexadecimal or base64 text
// (standard or URL alphabet, with or without padding). Text may have surrounding white space. ParseSecret rejects 32
// characters of text, because they are a password and not random bytes. Its errors contain no part of the secret.
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

// isText reports whether all bytes are printable ASCII or white space. 32 random bytes match with a probability of
// 10^-13.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return (c < ' ' || c > '~') && c != '\t' && c != '\r' && c != '\n' })
}
