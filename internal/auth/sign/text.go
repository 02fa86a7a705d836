// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
)

// signedText returns the signed form of a text. No token begins like it, so neither is valid as the other.
func signedText(purpose, text string) []byte { return []byte("assay " + purpose + "\x00" + text) }

// SignText returns the text, readable, with a signature in front. The signature is bound to the purpose. It is valid
// until the signing key is rotated and deleted.
func (s *Signer) SignText(purpose, text string) (string, error) {
	k := s.ring.Load().current(s.cfg.Now())
	if k == nil {
		return "", errors.New("sign: no signing key can be used")
	}
	signature := ed25519.Sign(k.private, signedText(purpose, text))
	return k.id + "." + base64.RawURLEncoding.EncodeToString(signature) + "." + text, nil
}

// VerifyText returns the text that any replica passed to SignText with the same purpose. ok is false if the signature
// is invalid.
func (s *Signer) VerifyText(purpose, signed string) (text string, ok bool) {
	id, rest, _ := strings.Cut(signed, ".")
	encoded, text, _ := strings.Cut(rest, ".")
	k := s.ring.Load().find(id)
	signature, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if k == nil || err != nil || !ed25519.Verify(k.public, signedText(purpose, text), signature) {
		return "", false
	}
	return text, true
}
