// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCleanText: the lines of a private key in a test's output are not sent to the model.
func TestCleanText(t *testing.T) {
	const output = "--- FAIL: TestKey\r\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1c7\n-----END RSA PRIVATE KEY-----\n"
	require.Equal(t, "--- FAIL: TestKey\n[redacted]\n[redacted]\n[redacted]\n"+strings.Repeat("a ", maxLine), cleanText(output+strings.Repeat("a ", maxLine)))
}
