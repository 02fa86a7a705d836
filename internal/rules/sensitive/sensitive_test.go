// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKindString(t *testing.T) {
	seen := map[string]bool{}
	for k := None; k <= NamedSecret; k++ {
		require.Regexp(t, `^[a-z_]+$`, k.String())
		require.False(t, seen[k.String()], k.String())
		seen[k.String()] = true
	}
	require.Equal(t, "unknown", (NamedSecret + 1).String())
}

func TestText(t *testing.T) {
	require.Equal(t, None, Text(nil))
	for text, want := range map[string]Kind{
		"mail bob@example.com":           Email,
		"4242 4242 4242 4242":            PaymentCard,
		"ssn 512-33-9071":                SSN,
		"DE89 3704 0044 0532 0130 00":    IBAN,
		"password=hunter2":               NamedSecret,
		"https://u:p@example.com":        URLPassword,
		"https://u@example.com":          None,
		"password=***, ask a@b.com":      Email,
		"password=hunter2 a@b.com":       NamedSecret, // the first one
		"a=***;b=***;token=***;secret=s": NamedSecret,
		"Authorization: Basic dTpw":      BasicCredentials, // more telling than the name
		"cookie=a&token=***&secret=b":    NamedSecret,
	} {
		require.Equal(t, want, Text([]byte(text)), text)
	}
}

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       Kind
	}{
		{"", "hunter2", None},
		{"password", "hunter2", NamedSecret},
		{"password", "", None},
		{"ssn", "512-33-9071", SSN},
		{"http.request.header.authorization", "Bearer abcdefghijklmno1", BearerToken},
		{"http.request.header.authorization", "Bearer", None},
		{"session.id", "abc", None},
		{"session.id", "bob@example.com", Email},
		{"user.id", "4242424242424242", None},
		{"user.id", "4242424242424242 bob@example.com", Email},
		{"acme.id", "4242424242424242", PaymentCard},
		{"acme.id", "424242 4242424242", PaymentCard},
		{"acme.id", "4242-42424242--4242 ", PaymentCard},
		{"acme.id", "ref 424242 4242424242", None},
		{"acme.id", "424242 4242424243", None},
		{"user.id", "424242 4242424242", None},
		{"PWD", "/srv", None},
		{"PWD", "hunter2", NamedSecret},
	} {
		require.Equal(t, c.want, Named([]byte(c.key), []byte(c.value)), "%s: %s", c.key, c.value)
	}
	require.Equal(t, None, Named(nil, []byte("hunter2")))
	require.Equal(t, Email, Key([]byte("user.bob@example.com.count")))
	require.Equal(t, None, Key([]byte("password")))
}

func TestInteger(t *testing.T) {
	for _, c := range []struct {
		key   string
		value int64
		want  Kind
	}{
		{"acme.pan", 4242424242424242, PaymentCard},
		{"acme.pan", 4242424242424243, None},
		{"acme.pan", -4242424242424242, None},
		{"acme.enqueued_at", 1750069800001234574, None},
		{"user.id", 4242424242424242, None},
		{"ssn", 512339071, NamedSecret},
		{"cvv", 123, NamedSecret},
		{"cvv", 0, None},
		{"cvv", -1, None},
		{"patientId", 7, NamedSecret},
		{"insurance-id", 7, NamedSecret},
		{"credit_card", 7, NamedSecret},
		{"card_number", 7, NamedSecret},
		{"password", 12345678, None},
		{"token", 7, None},
		{"session_id", 7, None},
		{"diagnosis", 7, None},
		{"", 9223372036854775807, None},
	} {
		require.Equal(t, c.want, Integer([]byte(c.key), c.value), "%s: %d", c.key, c.value)
	}
	require.Equal(t, PaymentCard, Integer(nil, 4242424242424242))
}

func TestFlag(t *testing.T) {
	for element, want := range map[string]bool{
		"--password": true, "-password": true, "--db-password": true, "--dbPassword": true, "--api-key": true, "-token": true,
		"password": false, "---password": false, "--password=x": false, "--password-file": false, "--no-password": false, "--": false, "": false,
		"--max-tokens": false, "/password": false, "--session.id": false, "- password": false,
	} {
		require.Equal(t, want, Flag([]byte(element)), element)
	}
	for value, want := range map[string]Kind{
		"x": NamedSecret, "": None, "***": None, "${PASSWORD}": None, "--verbose": None, "-v": None, "-1": NamedSecret, "true": None, "bob@example.com": Email,
	} {
		require.Equal(t, want, FlagValue([]byte(value)), value)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"order 42 accepted":                 "order 42 accepted",
		"mail to bob@example.com bounced":   "mail to [redacted] bounced",
		"a@example.com,b@example.com":       "[redacted],[redacted]",
		"to bob%40example.com&x=1":          "to [redacted]&x=1",
		"password=hunter2 user=bob":         "password=[redacted] user=bob",
		"password=hun,ter;2 user=bob":       "password=[redacted] user=bob",
		"?token=abc&page=2":                 "?token=[redacted]&page=2",
		`{"password":"a b","user":"bob"}`:   `{"password":"[redacted]","user":"bob"}`,
		`{\"password\":\"a\"}`:              `{\"password\":\"[redacted]\"}`,
		`{"cvv":123,"n":1}`:                 `{"cvv":[redacted],"n":1}`,
		"Authorization: Bearer abc-123 x":   "Authorization: Bearer [redacted] x",
		"Cookie: sid=1234; b=2\nnext":       "Cookie: [redacted]\nnext",
		"https://u:hunter2@example.com/x":   "https://u:[redacted]@example.com/x",
		"pay 4242 4242 4242 4242 now":       "pay [redacted] now",
		"-----BEGIN PRIVATE KEY-----\nMIIE": "[redacted]",
		"k -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nend": "k [redacted]\nend",
		"bad \xff\xfe byte":                "bad \uFFFD byte",
		"bad \xff bob@example.com":         "bad \uFFFD [redacted]",
		"AKIAIOSFODNN7EXAMPLE/eu-west-1":   "[redacted]/eu-west-1",
		"Bearer abcdefghijklmno1 rejected": "[redacted] rejected",
	} {
		require.Equal(t, want, Clean([]byte(text)), text)
	}
	require.Equal(t, "[redacted]", CleanNamed([]byte("db.password"), []byte("hunter2")))
	require.Equal(t, "***", CleanNamed([]byte("db.password"), []byte("***")))
	require.Equal(t, "4242424242424242", CleanNamed([]byte("user.id"), []byte("4242424242424242")))
	require.Equal(t, "[redacted]", CleanNamed(nil, []byte("424242 4242424242")))
	require.Equal(t, "to [redacted]", CleanNamed(nil, []byte("to bob@example.com")))
}

// TestCleanLeavesNoValue looks for the values themselves in cleaned texts.
func TestCleanLeavesNoValue(t *testing.T) {
	const secret = "Zx81kPq2Lm"
	for _, text := range []string{
		"password=" + secret, "password: " + secret, `"token":"` + secret + `"`, `{\"token\":\"` + secret + `\"}`, "user[password]=" + secret, "%22token%22%3A%22" + secret + "%22",
		"https://app:" + secret + "@db", "Bearer " + secret + secret, "Cookie: a=b; c=" + secret, "Authorization: Digest " + secret, "https%3A%2F%2Fu%3A" + secret + "%40h",
		"password=\"a b " + secret + "\"", "sk-" + secret + secret, "ghp_" + secret + secret, "app:" + secret + "@tcp(db)", "password=a," + secret,
	} {
		require.NotContains(t, Clean([]byte(text)), secret, text)
	}
}

// TestNames finds every name in every way of writing, in a key and in a text.
func TestNames(t *testing.T) {
	words := [][]string{
		{"password"},
		{"passwd"},
		{"pwd"},
		{"secret"},
		{"token"},
		{"api", "key"},
		{"apikey"},
		{"access", "key"},
		{"private", "key"},
		{"client", "secret"},
		{"authorization"},
		{"cookie"},
		{"session", "id"},
		{"ssn"},
		{"credit", "card"},
		{"card", "number"},
		{"cvv"},
		{"iban"},
		{"patient", "id"},
		{"diagnosis"},
		{"insurance", "id"},
	}
	title := func(w string) string { return string(bytes.ToUpper([]byte(w[:1]))) + w[1:] }
	join := func(words []string, sep string, each func(i int, w string) string) (s string) {
		for i, w := range words {
			if i > 0 {
				s += sep
			}
			s += each(i, w)
		}
		return s
	}
	plain := func(_ int, w string) string { return w }
	upper := func(_ int, w string) string { return string(bytes.ToUpper([]byte(w))) }
	pascal := func(_ int, w string) string { return title(w) }
	camel := func(i int, w string) string {
		if i == 0 {
			return w
		}
		return title(w)
	}
	for _, name := range words {
		for _, long := range [][]string{name, append([]string{"acme"}, name...), append([]string{"acme", "main2"}, name...)} {
			for _, key := range []string{
				join(long, "_", plain), join(long, "-", plain), join(long, ".", plain), join(long, "_", upper), join(long, "-", upper), join(long, ".", upper),
				join(long, "", camel), join(long, "", pascal), join(long, "-", pascal),
			} {
				if key == "session.id" { // a key of the registry
					continue
				}
				require.Equal(t, NamedSecret, Named([]byte(key), []byte("v")), key)
				for _, text := range []string{
					key + "=v", "x " + key + "=v y", key + ": abc12!", `{"` + key + `":"v"}`, `{\"` + key + `\":\"v\"}`, "?" + key + "=v", key + ": 'v'", "-D" + key + "=v", "{'" + key + "': 'v'}",
				} {
					require.Equal(t, NamedSecret, Text([]byte(text)), text)
				}
				for _, text := range []string{
					key + "=", key + ": abcdef", key + ": a1", `{"` + key + `":""}`, `{"` + key + `":null}`, key + "=***", key + "s=v", key + "_x=v", key + ".count=3", key + "=true",
				} {
					require.Equal(t, None, Text([]byte(text)), text)
				}
			}
		}
	}
}

// TestSamplesAreJSON keeps the type a sample states in step with its value.
func TestSamplesAreJSON(t *testing.T) {
	for _, corpus := range corpora {
		for i, s := range readCorpus(t, corpus) {
			var v any
			require.NoError(t, json.Unmarshal(s.Value, &v))
			got := "int"
			switch v.(type) {
			case string:
				got = "string"
			case bool:
				got = "bool"
			case []any:
				got = "array"
			case map[string]any:
				got = "map"
			}
			require.Equal(t, s.Type, got, "%s:%d", corpus, i+1)
		}
	}
}
