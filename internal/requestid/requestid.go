// SPDX-License-Identifier: Apache-2.0

package requestid

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Header is the header with the request id in requests and responses. gRPC metadata uses the same name in lower case.
const Header = "X-Request-Id"

// maxLength is the maximum length of an accepted id.
const maxLength = 128

const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~:/+=@"

// Of returns the id in the values of a header. There must be one value of at most 128 letters, digits and the
// characters -_.~:/+=@. Otherwise Of returns "", so that senders cannot inject text into the log.
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

// New returns a random id of 32 hexadecimal digits, like a trace id.
func New() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

type key struct{}

// NewContext returns a context with a request id.
func NewContext(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// FromContext returns the request id of ctx, or "".
func FromContext(ctx context.Context) string {
	id, _ := ctx.Value(key{}).(string)
	return id
}
