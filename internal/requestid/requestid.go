// SPDX-License-Identifier: Apache-2.0

package requestid

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Header is where requests and answers carry the id. In gRPC metadata it is called
// the same, in lower case.
const Header = "X-Request-Id"

// maxLength bounds the ids that are accepted.
const maxLength = 128

const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~:/+=@"

// Of returns the id among the values of a header: the only one, of at most 128
// letters, digits and characters that stand in ids (-_.~:/+=@). Anything else may be
// meant for whoever reads the log; it is "", and so is no value.
func Of(values []string) string {
	if len(values) != 1 || len(values[0]) > maxLength {
		return ""
	}
	for _, c := range []byte(values[0]) {
		if strings.IndexByte(allowed, c) < 0 {
			return ""
		}
	}
	return values[0]
}

// New returns a random id of 32 hexadecimal digits, as a trace id is written.
func New() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

type key struct{}

// NewContext returns a context of the request with that id.
func NewContext(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// FromContext returns the id of the request that ctx belongs to, "" for none.
func FromContext(ctx context.Context) string {
	id, _ := ctx.Value(key{}).(string)
	return id
}
