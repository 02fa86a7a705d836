// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrintable(t *testing.T) {
	const (
		body  = "MIIEpAIBAAKCAQEA1c7LEAKaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
		begin = "-----BEGIN RSA PRIVATE KEY-----\n"
		end   = "-----END RSA PRIVATE KEY-----\n"
	)
	redacted := func(n int) string { return strings.Repeat("[redacted]\n", n) }
	for name, c := range map[string]struct{ output, want string }{
		"lines":           {"--- FAIL: TestA\n\ta_test.go:3: got 1\nFAIL", "--- FAIL: TestA\n\ta_test.go:3: got 1\nFAIL\n"},
		"nothing":         {"", ""},
		"line ends":       {"a\r\nb\r\r\n\r\n", "a\nb\n\n"},
		"styles":          {"\x1b[31mred\x1b[0m\n", "red\n"},
		"hidden":          {"a\u202eb\x07\n", "a\ufffdb\ufffd\n"},
		"password":        {"password=hunter2-Xq81zz\n", "password=[redacted]\n"},
		"key":             {"FAIL\n" + begin + body + body + end + "ok\n", "FAIL\n" + redacted(4) + "ok\n"},
		"key without end": {"FAIL\n" + begin + body + body + "exit status 1\n", "FAIL\n" + redacted(3) + "exit status 1\n"},
		"key of a style":  {"\x1b[2m" + begin + "\x1b[0m\x1b[2m" + body + end, redacted(3)},
		"rest of a key":   {body + end + "ok\n", redacted(2) + "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, printable(c.output))
		})
	}
}
