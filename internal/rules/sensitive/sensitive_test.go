// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
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
		"ssn-512-33-9071-us":             SSN,
		"a1-512-33-9071":                 None,
		"part-no-512-33-9071":            None,
		"512-33-9071-1a":                 None,
		"DE89 3704 0044 0532 0130 00":    IBAN,
		"password=hunter2":               NamedSecret,
		"https://u:p@example.com":        URLPassword,
		"https://u@example.com":          None,
		"https://a.example&to=b@c.com":   Email,
		"https://a.example,b@c.com":      Email,
		"https://a.example;b@c.com":      Email,
		"/users/bob@EXAMPLE.COM/orders":  Email,
		"gloas-aB3dE5fG7hI9jK1lM3nO":     GitLabToken,
		"to be68 5390 0754 7034 booked":  IBAN,
		"span be68539007547034":          None, // hexadecimal
		`{"args":"--token=b"}`:           NamedSecret,
		`{"args":"--token=b","n":1}`:     NamedSecret,
		`token=b'abc'`:                   NamedSecret,
		`{"args":["--db-password","x"]}`: NamedSecret,
		`['-token', 'abc', '-v']`:        NamedSecret,
		`"[\"--api-key\", \"x\"]"`:       NamedSecret,
		`["--token", "a@b.com"]`:         Email,
		`["--token", "***"]`:             None,
		`["--token", "--verbose"]`:       None,
		`["--token"], "x"`:               None,
		`["--page-token", "x"]`:          None,
		`["--sin", "x"]`:                 None,
		`"-----BEGIN PRIVATE KEY-----x"`: PrivateKey,
		`token=b''`:                      None,
		"password=***, ask a@b.com":      Email,
		"password=hunter2 a@b.com":       NamedSecret, // the first of two
		"a=***;b=***;token=***;secret=s": NamedSecret,
		"Authorization: Basic dTpw":      BasicCredentials, // more telling than the name
		"cookie=a&token=***&secret=b":    NamedSecret,
	} {
		require.Equal(t, want, Text([]byte(text)), text)
	}
}

// TestEscapes finds sensitive data next to escapes of JSON and colors of terminals.
func TestEscapes(t *testing.T) {
	for text, want := range map[string]string{
		`{"m":"a\ncookie: sid=a1b2c3d4"}`:                                       `{"m":"a\ncookie: [redacted]"}`,
		`{"m":"a\nauthorization: abc123def"}`:                                   `{"m":"a\nauthorization: [redacted]"}`,
		`{"m":"a\tapi_key=Zx81kPq2Lm"}`:                                         `{"m":"a\tapi_key=[redacted]"}`,
		`{"m":"a\r\nssn: 529417382"}`:                                           `{"m":"a\r\nssn: [redacted]"}`,
		`{"m":"a\fcard_number=4000"}`:                                           `{"m":"a\fcard_number=[redacted]"}`,
		`{"m":"a\nsession.id=4000"}`:                                            "", // a key of the registry
		"q=a%0Aapi_key=Zx81kPq2Lm":                                              "q=a%0Aapi_key=[redacted]",
		`{"m":"a\nglpat-aB3dE5fG7hI9jK1lM3nO"}`:                                 `{"m":"a\n[redacted]"}`,
		`{"m":"a\bmail jane@example.com"}`:                                      `{"m":"a\bmail [redacted]"}`,
		`{"m":"\u003c4111111111111111\u003e"}`:                                  `{"m":"\u003c[redacted]\u003e"}`,
		`{"m":"\u00414111111111111111"}`:                                        `{"m":"\u0041[redacted]"}`,
		`{"m":"\u201e529-41-7382\u201c"}`:                                       `{"m":"\u201e[redacted]\u201c"}`,
		`{"m":"\u201eDE89370400440532013000\u201c"}`:                            `{"m":"\u201e[redacted]\u201c"}`,
		`{"m":"\u0027AKIAIOSFODNN7EXAMPLE\u0027"}`:                              `{"m":"\u0027[redacted]\u0027"}`,
		`{"m":"\u003cjane@example.com\u003e"}`:                                  `{"m":"\u003c[redacted]\u003e"}`,
		`{"m":"\u003capi_key=Zx81kPq2Lm\u003e"}`:                                `{"m":"\u003capi_key=[redacted]"}`,
		`{"m":"/x?password\u003dhunter2\u0026a\u003db"}`:                        `{"m":"/x?password\u003d[redacted]"}`,
		`{"m":"{\"u\":\"?password\\u003dhunter2\"}"}`:                           `{"m":"{\"u\":\"?password\\u003d[redacted]"}"}`,
		`{"m":"/x?password\u003d\u0026a\u003db"}`:                               "",
		`{"m":"/x?password\u003d***\u0026a\u003db"}`:                            "",
		`{"m":"/x?passwords\u003dhunter2"}`:                                     "",
		`{"m":"/x?password\u003ehunter2"}`:                                      "",
		`{"m":"password\u003a hunter2"}`:                                        `{"m":"password\u003a [redacted]"}`,
		`{"m":"password\u003A \u0022hunter2\u0022 x"}`:                          `{"m":"password\u003A \u0022[redacted]\u0022 x"}`,
		`{"m":"{\u0022password\u0022:\u0022hunter2\u0022}"}`:                    `{"m":"{\u0022password\u0022:\u0022[redacted]\u0022}"}`,
		`{"m":"{\u0027password\u0027: \u0027a b\u0027}"}`:                       `{"m":"{\u0027password\u0027: \u0027[redacted]\u0027}"}`,
		`"{\\u0022token\\u0022:\\u0022a b\\u0022}"`:                             `"{\\u0022token\\u0022:\\u0022[redacted]\\u0022}"`,
		`{"m":"{\u0022token\u0022:\u0022a\\\u0022b\u0022}"}`:                    `{"m":"{\u0022token\u0022:\u0022[redacted]\u0022}"}`,
		`{"m":"{\u0022token\u0022:\u0022\u0022,\u0022a\u0022:\u0022b\u0022}"}`:  "",
		`{"m":"{\u0022token\u0022:null,\u0022n\u0022:1}"}`:                      "",
		`{"m":"{\u0022token\u0022:u0022`:                                        "",
		"\x1b[31m4111111111111111\x1b[0m":                                       "\x1b[31m[redacted]\x1b[0m",
		"\x1b[1;33mAKIAIOSFODNN7EXAMPLE\x1b[0m":                                 "\x1b[1;33m[redacted]\x1b[0m",
		"\x1b[mBearer abcdef0123456789\x1b[0m":                                  "\x1b[m[redacted]\x1b[0m",
		"\x1b[36mapi_key=\x1b[0mZx81kPq2Lm":                                     "\x1b[36mapi_key=\x1b[0m[redacted]",
		"\x1b[36mpassword\x1b[0m=hunter2":                                       "\x1b[36mpassword\x1b[0m=[redacted]",
		"\x1b[34;1m\"token\"\x1b[0m\x1b[1;39m:\x1b[0m \x1b[0;32m\"a b\"\x1b[0m": "\x1b[34;1m\"token\"\x1b[0m\x1b[1;39m:\x1b[0m \x1b[0;32m\"[redacted]\"\x1b[0m",
		`{"m":"\u001b[36mpassword=\u001B[0mhunter2\u001b[0m"}`:                  `{"m":"\u001b[36mpassword=\u001B[0m[redacted]"}`,
		"\x1b[36mpassword=\x1b[0m user=17":                                      "",
		"\x1b[36mpassword=\x1b[0m***\x1b[0m":                                    "",
		"[36mpassword[0m=hunter2":                                               "",
		"an IBAN of DE89+3704+0044+0532+0130+00.":                               "an IBAN of [redacted].",
		"/x?n=DE89%203704%200044%200532%200130%2000&a=b":                        "/x?n=[redacted]&a=b",
		"/x?n=DE89%203704+0044%200532%200130%2000&a=b":                          "",
	} {
		if want == "" {
			want = text
		}
		require.Equal(t, want, Clean([]byte(text)), text)
	}
}

// TestClosingQuotes: a quotation mark after a name may end the string that contains the name.
func TestClosingQuotes(t *testing.T) {
	for text, want := range map[string]string{
		`path="/login?token=" status=200`:                   "",
		`level=info msg="enter password:" pid=12345`:        "",
		`level=error msg="invalid token: " code=a1b2c3`:     "",
		`<a href="/cb?token=" class="b">y</a>`:              "",
		`{"m":"path=\"/login?token=\" status=200"}`:         "",
		`{"m":"path=\u0022/login?token=\u0022 status=200"}`: "",
		"run `password:` with care, don't `echo`":           "",
		`w='say "x"' at='/cb?token=' n=1`:                   "",
		`a=5" msg="no password:" n=12`:                      "",
		`user="" msg="token=", n=1`:                         "",
		`path="/login?token=x" password=" hunter2"`:         `path="/login?token=[redacted]" password="[redacted]"`,
		`user=" " password=" hunter2"`:                      `user=" " password="[redacted]"`,
		`prompt="Enter: " password=") x"`:                   `prompt="Enter: " password="[redacted]"`,
		`5" wide password=", x1"`:                           `5" wide password="[redacted]"`,
		`don't use password=' hunter2'`:                     `don't use password='[redacted]'`,
		`b", user="bob" password=" x1"`:                     `b", user="bob" password="[redacted]"`,
		`msg="set password="/x1y2z3" done"`:                 `msg="set password="[redacted]" done"`,
		`msg="set password="hunter2" done"`:                 `msg="set password="[redacted]" done"`,
		"a=\"b\npassword=\" hunter2\"":                      "a=\"b\npassword=\"[redacted]\"",
		`{"m":"a=\"b","n":"password=\" hunter2\""}`:         `{"m":"a=\"b","n":"password=\"[redacted]\""}`,
		`msg="x" {"password":" hunter2"}`:                   `msg="x" {"password":"[redacted]"}`,
	} {
		if want == "" {
			want = text
		}
		require.Equal(t, want, Clean([]byte(text)), text)
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
		{"http.request.header.authorization", "Bearer ${TOKEN}", None},
		{"http.request.header.authorization", " Basic  <hidden> ", None},
		{"http.request.header.authorization", "Token xxxx", None},
		{"http.request.header.cookie", "sid=${SID}; a=***", None},
		{"http.request.header.cookie", "sid=xxxx; a=b", NamedSecret},
		{"password", `"${TOKEN}"`, None},
		{"password", `"${TOKEN}'`, NamedSecret},
		{"password", `'%s'`, None},
		{"http.request.header.authorization", "Bearer ${TOKEN} x1y2z3", NamedSecret},
		{"http.request.header.authorization", "Bearer x1y2z3", NamedSecret},
		{"http.request.header.authorization", "AWS4-HMAC-SHA256", None},
		{"body", `{"authorization":"Bearer ${TOKEN}"}`, None},
		{"body", `{"authorization":"Bearer x1y2z3"}`, NamedSecret},
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
		"--max-tokens": false, "/password": false, "--session.id": false, "- password": false, "--sin": false, "--tax-id": false,
	} {
		require.Equal(t, want, Flag([]byte(element)), element)
	}
	for value, want := range map[string]Kind{
		"x": NamedSecret, "": None, "***": None, "${PASSWORD}": None, "--verbose": None, "-v": None, "-1": NamedSecret, "true": None, "bob@example.com": Email,
		"Bearer ${TOKEN}": None, "Bearer x1y2": NamedSecret,
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

// TestCleanLeavesNoValue searches cleaned texts for the original values.
func TestCleanLeavesNoValue(t *testing.T) {
	const secret = "Zx81kPq2Lm"
	for _, text := range []string{
		"password=" + secret, "password: " + secret, `"token":"` + secret + `"`, `{\"token\":\"` + secret + `\"}`, "user[password]=" + secret, "%22token%22%3A%22" + secret + "%22",
		"https://app:" + secret + "@db", "Bearer " + secret + secret, "Cookie: a=b; c=" + secret, "Authorization: Digest " + secret, "https%3A%2F%2Fu%3A" + secret + "%40h",
		"password=\"a b " + secret + "\"", "password=SecretStr('" + secret + "')", `password=open("` + secret + `")`, `password=open(b'` + secret + `')`, `password=open( "` + secret + `")`, `password: Some("` + secret + `")`, `https:\/\/u:` + secret + `@h\/`, `{"m":"password=SecretStr(\"` + secret + `\")"}`, "sk-" + secret + secret, "ghp_" + secret + secret, "app:" + secret + "@tcp(db)", "password=a," + secret,
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
	isSessionID := func(name []string) bool { return name[0] == "session" }
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
				if !isSessionID(name) { // prose
					require.Equal(t, NamedSecret, Text([]byte(key+": abc12!")), key)
				}
				for _, text := range []string{
					key + "=v", "x " + key + "=v y", `{"` + key + `":"v"}`, `{\"` + key + `\":\"v\"}`, "?" + key + "=v", "'" + key + "': 'v'", "-D" + key + "=v", "{'" + key + "': 'v'}",
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

// TestCards finds the numbers of every issuer, and no other number with a valid check
// digit: of another length, of another issuer, or in another place.
func TestCards(t *testing.T) {
	// number returns the number of n digits with the prefix and a valid check digit.
	number := func(prefix string, n int) string {
		for d := byte('0'); d <= '9'; d++ {
			s := prefix + strings.Repeat("0", n-1-len(prefix)) + string(d)
			sum := 0
			for i := range s {
				v := int(s[n-1-i] - '0')
				if i%2 == 1 {
					v = v*2%10 + v*2/10
				}
				sum += v
			}
			if sum%10 == 0 {
				return s
			}
		}
		t.Fatal("no check digit")
		return ""
	}
	for prefix, lengths := range map[string][]int{
		"34": {15}, "37": {15}, "33": nil, "35": nil,
		"300": {14}, "305": {14}, "306": nil, "36": {14}, "38": {14}, "39": {14}, "32": nil,
		"4":  {13, 16, 19},
		"51": {16}, "55": {16}, "2221": {16}, "2720": {16}, "2220": nil, "2721": nil,
		"6011": {16, 19}, "6012": {16}, "643": nil, "644": {16, 19}, "649": {16, 19}, "65": {16, 19}, "66": nil,
		"3527": nil, "3528": {16, 19}, "3589": {16, 19}, "3590": nil,
		"61": nil, "62": {16, 17, 18, 19},
		"50": {16, 19}, "56": {16, 19}, "58": {16, 19}, "59": nil, "63": {16, 19}, "67": {16, 19}, "68": nil,
		"2199": nil, "2200": {16}, "2204": {16}, "2205": nil,
		"60": {16}, "80": nil, "81": {16}, "82": {16}, "83": nil, "508": {16, 19}, "9791": nil, "9792": {16}, "9793": nil,
		"1": nil, "7": nil, "90": nil,
	} {
		for n := 12; n <= 20; n++ {
			want := None
			if slices.Contains(lengths, n) {
				want = PaymentCard
			}
			s := number(prefix, n)
			require.Equal(t, want, Text([]byte("paid with "+s+".")), s)
			if n <= 18 {
				v, err := strconv.ParseInt(s, 10, 64)
				require.NoError(t, err)
				require.Equal(t, want, Integer(nil, v), s)
			}
			s = s[:4] + " " + s[4:8] + "-" + s[8:]
			require.Equal(t, want, Named([]byte("note"), []byte(s)), s)
		}
	}
	// Times between 2000 and 2038.
	for ms := int64(946_684_800_000); ms < 2_145_916_800_000; ms += 7_777_777_777 {
		for _, unit := range []int64{1, 1000, 1_000_000} {
			for last := range int64(10) {
				require.Equal(t, None, Integer(nil, ms*unit+last))
			}
		}
	}
	for text, want := range map[string]Kind{
		"card 4111111111111111":         PaymentCard,
		"card-4111111111111111":         PaymentCard,
		"card_no=4111111111111111":      PaymentCard,
		"_4111111111111111":             PaymentCard,
		"9792 0000 0000 0003":           PaymentCard,
		"8171 9999 2766 0000":           PaymentCard,
		"3782 822463 10005":             PaymentCard,
		"3056-930902-5904":              PaymentCard,
		"6200 0895 0383 67580":          PaymentCard,
		"6200-8718-6760-026391":         PaymentCard,
		"6200 0895 0383 67580 1234":     None,
		"4000 2000 10003":               None, // three numbers
		"blk_4111111111111111":          None,
		"blk_-4111111111111111":         None,
		"delta=-4111111111111111":       None,
		"offset -4111111111111111":      None,
		"order_4111 1111 1111 1111":     None,
		"x4111111111111111":             None,
		"4111111111111111f":             None,
		"0x4111111111111111":            None,
		"a1-4111111111111111":           None,
		"card-4111-1111-1111-1111":      PaymentCard,
		"pan-4111 1111 1111 1111":       PaymentCard,
		"a1-4111-1111-1111-1111":        None,
		"id=5 4111 1111 1111 1111":      PaymentCard,
		"in 3 5555 5555 5555 4444":      PaymentCard,
		"be68 4111 1111 1111 1111":      None, // an IBAN with a typing error
		"9223372036854775807":           None,
		"1111111111111117":              None,
		"7111111111111111":              None,
		"550e8400-4111-1111-1111-11111": None,

		`{"pan":"622202 1234567890128"}`:             PaymentCard, // groups of any length: only the whole value
		`{"pan": "622202-1234567890128", "n": 1}`:    PaymentCard,
		`{"pan":"4111-1111111111 11"}`:               PaymentCard,
		`{"b":"{\"pan\":\"622202 1234567890128\"}"}`: PaymentCard,
		`{"pan":"622202 1234567890129"}`:             None,
		`{"pan":"no 622202 1234567890128"}`:          None,
		`{"pan":"622202 1234567890128 1"}`:           None,
		`{"pan":"622202 1234567890128`:               None,
		`{"traceId":"622202 1234567890128"}`:         None,
		`{"a":["622202 1234567890128"]}`:             None,
		`"622202 1234567890128"`:                     None,
		`took: "622202 1234567890128"`:               None,
		"card 622202 1234567890128":                  None,
		"paid 4111  1111  1111  1111":                None,
	} {
		require.Equal(t, want, Text([]byte(text)), text)
	}
}

// TestPrivateDomains leaves out addresses of private networks and names of files.
func TestPrivateDomains(t *testing.T) {
	for _, label := range []string{"internal", "local", "localdomain", "lan", "intranet", "corp", "Internal", "png", "js", "aspx", "graphql", "opus", "cluster.local"} {
		require.Equal(t, None, Text([]byte("from root@db1."+label+" at 10:00")), label)
		require.Equal(t, Email, Text([]byte("from root@"+label+".example.com")), label)
	}
	for _, label := range []string{"com", "localhosts", "internals", "corps", "land", "international", "photography"} {
		require.Equal(t, Email, Text([]byte("from root@db1."+label+" at 10:00")), label)
	}
}

// TestJSONWebTokens decodes headers in the layouts that encoders write.
func TestJSONWebTokens(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	const payload = `{"sub":"1234567890"}`
	for header, want := range map[string]Kind{
		`{"alg":"HS256","typ":"JWT"}`:                     JWT,
		`{ "alg": "HS256" }`:                              JWT,
		"{\n  \"alg\": \"HS256\",\n  \"typ\": \"JWT\"\n}": JWT,
		"{\r\n\t\"alg\": \"HS256\"\r\n}":                  JWT,
		"{\n\"alg\":\"HS256\"}":                           JWT,
		"{\t\"alg\":\"HS256\"}":                           JWT,
		"{\"alg\":\"HS256\"}\n":                           JWT,
		"{\n  no json\n}":                                 None,
		"{\x00\"alg\":\"HS256\"}":                         None,
		"[1,2,3]":                                         None,
	} {
		token := encode([]byte(header)) + "." + encode([]byte(payload)) + "." + encode([]byte("signature"))
		require.Equal(t, want, Text([]byte("got "+token+" back")), header)
		require.Equal(t, None, Text([]byte("got "+encode([]byte(header))+"."+encode([]byte(payload)))), header)
		require.Equal(t, None, Text([]byte("gotx"+token)), header)
	}
	require.Equal(t, None, Text([]byte("ewok.says.hello")))
	require.Equal(t, None, Text([]byte("ewogICJhbGci.x.y")))
}

// TestNoSecrets checks names and values that only look like secrets, each next to a secret of almost the same
// form.
func TestNoSecrets(t *testing.T) {
	for _, c := range []struct{ no, yes string }{
		{"mutation($password: String!)", "mutation(password: String5!)"},
		{"$password = load()", "password=load()"},
		{"input Login { password: String! }", "input Login { password: String5! }"},
		{`{"password":"string"}`, `{"password":"strong1"}`},
		{"query($_token: ID!, $n: Int)", "query(_token: ID123!7, $n: Int)"},
		{"next_page_token=CAUQAA1", "next_token_page_x_token=CAUQAA1"},
		{"pageToken: CAUQAA1", "coverToken: CAUQAA1"},
		{"nextpagetoken=CAUQAA1", "nexttimetoken=CAUQAA1"},
		{`{"nextToken":"AAA="}`, `{"nexusToken":"AAA="}`},
		{"x-ms-continuation-token: a1b2c3d4", "x-ms-token: a1b2c3d4"},
		{"CancellationToken=7ffe12", "CancelToken=7ffe12"},
		{"resume.token=8266", "resumed.token=82660"},
		{"sync-token=s72594", "async-token=s72594"},
		{"cursor token: abc1234", "precursor token: abc1234"},
		{"session id: 8f3a11c0", "session id=8f3a11c0"},
		{"Session_ID: 8f3a11c0", "Cookie: session_id=8f3a11c0"},
		{"sessionId: '8f3a11c0'", "{'sessionId': '8f3a11c0'}"},
		{"token=Token{type=ACCESS, id=7}", "token=tokeN{type=ACCESS"},
		{"token: com.example.Token@1f2e3d", "token: com.example.Token@1f2e3g"},
		{"password=[C@1f2e3d4a", "password=[Cc@1f2e3d4a"},
		{"token=Outer$Inner@1f2e3d", "token=Admin@123"},
		{"cookie: SameSite=Lax", "cookie: SameSights=Lax"},
		{"cookie=null user=17", "cookie=sid user=17"},
		{"cookie=, user=17", "cookie=s, user=17"},
		{"invalid cookie: signature mismatch, ignoring", "invalid cookie: signature=mismatch, ignoring"},
		{"Set-Cookie: Path=/; HttpOnly; Secure; Max-Age=0", "Set-Cookie: sid=1; Path=/; HttpOnly"},
		{"Set-Cookie: sid=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "Set-Cookie: sid=3; Expires=Thu, 01 Jan 1970 00:00:00 GMT"},
		{"password=ok", "password=okra"},
		{"token=failed", "token=fail3d"},
		{"secret: not_found", "secret: not_funny"},
		{"token=stale", "token=stile"},
		{"refresh token: invalid_grant", "refresh token: invalid_grunt"},
		{"card_number=XXXX-XXXX-XXXX-4242", "card_number=XXXX-XXXX-4242-4242"},
		{`{"ssn":"xxx-xx-6789"}`, `{"ssn":"xxx-45-6789"}`},
		{"password = :1", "password = :1a"},
		{`password: "unknown"`, `password: "unknown1"`},
		{`{"token":"Expired."}`, `{"token":"Expire."}`},
		{"secret: kube-system/registry-credentials", "secret=kube-system/registry-credentials"},
		{`secret: "default/tls-1"`, `secret: "default/tls-1?"`},
		{`{"secret":"default/my-tls"}`, `{"secret":"default+my/tls"}`},
		{"private_key: /etc/tls/server.key", "private_key: 9etc/tls/Server.key"},
		{`private_key: C:\keys\server.pem`, `private_key: C-keys-server.pem`},
		{"authorization: /etc/acme/policy1", "authorization: users/default1"},
		{"invalid cookie: /login", "invalid cookie: /login; a=b"},
		{`authorization: "/etc/acme/policy1"`, `authorization: "Token /etc/acme/policy1"`},
		{"authorization: /aj4/4aaqskzjrg", "authorization: /aj4/4AAQSkZJRg"},
		{"get token: oauth2: cannot fetch token: 400 Bad Request", "get token: hunter2: cannot fetch token"},
		{`get token: oauth2: "invalid_grant" "Bad Request"`, `get token: oauth2: "aB3dE5" "Bad Request"`},
		{"decode secret: base64: illegal data", "decode secret: base64: aHVudGVyMg=="},
		{"verify token: sha256: mismatch", `verify token: "sha256:" mismatch`},
		{"get token: oauth2: " + strings.Repeat("a", 63), "get token: oauth2: " + strings.Repeat("a", 64)},
		{"verify token: crypto/rsa: verification error", "verify token=crypto/rsa: verification error"},
		{"token: java.io.IOException: 401", "token: java.io.IOException2: 401"},
		{"invalid cookie: /login: no value", "invalid cookie: /Login: no value"},
		{"password=SecretStr('**********')", "password=SecretStr('hunter2')"},
		{"{\"m\":\"password=SecretBytes(b\\\"***\\\")\"}", "{\"m\":\"password=SecretBytes(b\\\"hunter2\\\")\"}"},
		{"password=SecretStr('')", "password=secret1('')"},
		{"token: ./config/token.txt", "token: /9j/4AAQSkZJRg"},
		{"password=[object Object]", "password=[objects]"},
		{"sessionid=155313 proto=17", "sessionid=15531f proto=17"},
		{"sessionid=4294967295", "sessionid=42949672950"},
		{"sessionid = 0x15dabf8d4140000, timeout", "sessionid = 0z15dabf8d4140000, timeout"},
		{`SessionID="0x7f8ecc0421f8"`, `SessionID="8f8ecc0421f8"`},
		{`{"DeviceToken":"NO_DEVICE_TOKEN"}`, `{"DeviceToken":"NO_DEVICE_TOKEN1"}`},
		{"password=DB_PASSWORD", "password=DBPASSWORD"},
		{"cookie: mstshash=admin", "cookie: hash=admin1"},
		{"traceID=4223839516656612", "raceID_4=4223839516656612"},
		{`{"span_id": "4223839516656612"}`, `{"span": "4223839516656612"}`},
		{`{"id":4508153524038140002}`, `{"no":4508153524038140002}`},
		{`detection_id: "4508153524038140002"`, `detection: "4508153524038140002"`},
		{"cipher=chacha20-poly1305@openssh.com", "mail=chacha20@openssh.com"},
		{"user=zkcli@HADOOP.COM", "user=jane@HADOOP.COM"},
		{"nn/namenode@HADOOP.COM", "/nn/namenode@HADOOP.COM"},
		{"HTTP/www.hadoop.com@HADOOP.COM", "jane.doe@HADOOP.COM, jane+list@HADOOP.COM"},
		{"message-id=<20200520072944.AFCA295A@divella.it>", "from=<20200520072944.AFCA295A@divella.it>"},
		{`"Message-ID: <a.b@example.com>"`, `"Message-To: <a.b@example.com>"`},
		{"to FederatedEmail.4c1f4d8b-8179-4148-93bf-00a95fa1e042@example.com", "to FederatedEmail.4c1f4d8b-8179-4148@example.com"},
		{"5ad83cb367fc48358e759dccff238f46@thread.skype", "5ad83cb367fc48358e759dcczf238f46@thread.skype"},
		{"jane@xxxxx.com", "jane@xxy.com"},
		{`"Members@odata.count":2`, `"Members@data.count":2`},
		{"u=%2Fa%3Fpassword%3D%26user%3Dbob", "u=%2Fa%3Fpassword%3Dhunter2%26user%3Dbob"},
		{"next=%2Fa%3Ftoken%3Dnull%26x%3D1", "next=%2Fa%3Ftoken%3Dnullx%26x%3D1"},
		{"u=%3Fpassword%3D%3Chidden%3E", "u=%3Fpassword%3Dhidden1%3E"},
		{"u=%3Ftoken%3D%24%7BTOKEN%7D%26a", "u=%3Ftoken%3D%7BTOKEN%26a"},
		{"u=%3Ftoken%3D%25s%26a%3Db", "u=%3Ftoken%3D%25q2%26a%3Db"},
		{"u=password%3A%20%26a", "u=password%3A%20hunter2"},
		{"u=%7B%22password%22%3A%20%22%22%2C%22a%22%3A1%7D", "u=%7B%22password%22%3A%20%22hunter2%22%7D"},
		{"u=%22password%22%3A+%22null%22%7D", "u=%22password%22%3A+%22hunter2%22%7D"},
		{"u=%3Fpassword%3D%27%27%26a", "u=%3Fpassword%3D%27hunter2%27"},
		{"u=cookie%3A%20%3Chidden%3E", "u=cookie%3A%20sid%3Dhunter2"},
		{"u=%7B%22password%22%3Anull%7D", "u=%7B%22password%22%3A%22null1%22%7D"},
		{"u=%3Ftoken%3Dxxxx", "u=%3Ftoken%3D" + strings.Repeat("x", 70) + "1"},
		{"Cookie: sid=xxxx; lang=<none>", "Cookie: sid=xxxy; lang=<none>"},
		{"password=%s.", "password=%s.1"},
		{"password= for user17 from 10.0.0.1", "password= hunter2"},
		{"password= user=user17", "password= user17, user=bob"},
		{`["--authorization", "Bearer ${TOKEN}"]`, `["--authorization", "Bearer TOKEN1"]`},
		{"WHERE [u].[Password] = @__password_0", "WHERE [u].[Password] = '@__password-0'"},
		{"SET [Password] = @__p_0 WHERE [Id] = @__id_1", "SET [Password] = @p3p_0 WHERE [Id] = @__id_1"},
		{"WHERE session_id = @sid", "WHERE session_id = @sid8x"},
		{"WHERE u.Token = @Token1", "WHERE u.Token = @Toke1"},
		{"WHERE u.Token=@user2Token", "WHERE u.Token=@user2"},
		{"WHERE [ApiKey] IN (@a) OR [ApiKey] = @key_1", "WHERE [ApiKey] = @1key"},
		{"WHERE token = $1::uuid", "WHERE token = $1::1"},
		{"WHERE token = @token::UUID", "token = @token::uid9"},
		{"password=$name::text", "password=$ecret::x"},
		{"WHERE token = @__user2_0", "password=@__hunter2"},
		{"WHERE token = ?::varchar(64)", "WHERE token = a1::varchar(64)"},
		{"WHERE token = @p0::uuid", "WHERE token = @1p::uuid"},
		{"WHERE token = :token::text AND a = 1", "WHERE token = :1t::text AND a = 1"},
		{"WHERE token = %s::text[]", "WHERE token = %9::text[]"},
		{"X-Cloud-Trace-Context: 105445aa7843bc8bf206b12000100000/4848348305935750085;o=1", "105445aa7843bc8bf206b12000100000 4848348305935750085"},
		{"trace=105445aa7843bc8bf206b12000100000/4111111111111111", "GET /105445aa7843bc8bf206b12000100000/4111111111111111"},
		{"105445aa7843bc8bf206b12000100000/4848348305935750085", "/105445ga7843bc8bf206b1200010000/4848348305935750085"},
		{`{"url":"https:\/\/jane@example.com\/x"}`, `{"url":"https:\/\/jane:p4ss@example.com\/x"}`},
		{`{"dsn":"mysql:\/\/root:***@db\/app"}`, `{"dsn":"mysql:\/\/root:s3cret@db\/app"}`},
		{`{"m":"{\"dsn\":\"mysql:\\\/\\\/root:${P}@db\"}"}`, `{"m":"{\"dsn\":\"mysql:\\\/\\\/root:s3cret@db\"}"}`},
		{`password: Some("***")`, `password: Some("hunter2")`},
		{`password: Some("")`, `Config { token: Some("ghx_abcdef0123"), n: 1 }`},
		{`token: Err("expired at 12:00")`, `token: Ok("expired1")`},
		{`password: ValidationError("too short")`, `password: Validated("hunter2")`},
		{`authorization: Some("Bearer")`, `authorization: Some("Bearer a1b2c3")`},
		{`authorization: Some("Bearer ${TOKEN}")`, `authorization: Some("Basic QWxhZGRpbjpvcGVu")`},
		{`secret: Some("/run/secrets/db")`, `secret: Some("/Run/ secrets")`},
		{`secret: Ref("kube-system/registry-credentials")`, `password=Ref("kube-system/registry-credentials")`},
		{`Unexpected token: Ident("foo")`, `Token: Ident("foo")`},
		{`token: t("auth.token")`, `token=t("auth.token")`},
		{`password = getenv("a1b2c3")`, `password = Secret("a1b2c3")`},
		{"{\"password\":\n  null}", "{\"password\":\n  \"hunter2\"}"},
		{"\"password\":\n  first-key: a", "{\"token\" :\r\n\"abc\"}"},
		{"\"token\":\n  \"type\": \"string\"", "\"token\":\n  \"type\", \"x\": 1"},
		{"field \"token\":\n\"abc\" is not valid", "{\"token\":\n\"abc\" }"},
		{"bad \"secret\":\n7f8ecc0421f8 x", "bad \"secret\": 7f8ecc0421f8 x"},
		{"{\"token\":\n12}", "{\"cvv\":\n123}"},
		{"password:\n\"hunter2\"", "\"password\":\n\"hunter2\""},
		{"docker://nginx:latest@sha256:0123456789abcdef", "docker://nginx:latest@sha25:0123456789abcdef"},
		{"oci://app:main@sha512:012345", "oci://app:main@sha512:01234/a"},
		{"AIzaSyXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX", "AIzaSyXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX1"},
		{`kube_secret_info{secret="default-token-wjfhf"}`, `kube_secret_info{secret="default-token-wjfhfx"}`},
	} {
		require.Equal(t, None, Text([]byte(c.no)), c.no)
		require.NotEqual(t, None, Text([]byte(c.yes)), c.yes)
	}
	for _, c := range []struct {
		key, value string
		want       Kind
	}{
		{"nextPageToken", "CAUQAA", None},
		{"page.token", "CAUQAA", None},
		{"sync_token", "s72594", None},
		{"app.token", "s72594", NamedSecret},
		{"homepage_token", "s72594", NamedSecret},
		{"session_id", "8f3a11c0", NamedSecret},
		{"password", "failed", None},
		{"password", "Failed!", None},
		{"password", "failed2", NamedSecret},
		{"token", "com.example.Token@1f2e3d", None},
		{"token", "Token{type=ACCESS}", None},
		{"cookie", "SameSite=Lax; Secure", None},
		{"cookie", "SameSite=Lax; a=b", NamedSecret},
		{"trace_id", "4223839516656612", None},
		{"parent.spanId", "4223839516656612", None},
		{"order.id", "4223839516656612", PaymentCard},
		{"event.id", "4508153524038140002", None},
		{"patient_id", "4508153524038140002", NamedSecret},
		{"event.number", "4508153524038140002", PaymentCard},
		{"session_id", "155313", NamedSecret},
		{"secret", "default/my-tls", NamedSecret}, // only after a colon in a text
	} {
		require.Equal(t, c.want, Named([]byte(c.key), []byte(c.value)), "%s: %s", c.key, c.value)
	}
	require.Equal(t, PaymentCard, Integer([]byte("event.number"), 4508153524038140002))
	require.Equal(t, None, Integer([]byte("event.id"), 4508153524038140002))
	require.Equal(t, None, Integer([]byte("span_id"), 4223839516656612))
	require.Equal(t, PaymentCard, Integer([]byte("order.id"), 4223839516656612))
}

// TestAddresses: an IP address under the name of a secret is none.
func TestAddresses(t *testing.T) {
	for value, want := range map[string]Kind{
		"10.0.0.1":                            None,
		"10.0.0.1:80":                         None,
		"2001:db8::1":                         None,
		"2001:DB8::1":                         None,
		"2001:db8:0:0:0:0:0:1":                None,
		"1:2:3:4:5:6:7::":                     NamedSecret,
		"1::":                                 NamedSecret,
		"::1":                                 None,
		"::ffff:10.0.0.1":                     None,
		"64:ff9b:1:2:3:4:10.0.0.1":            None,
		"fe80::1%eth0":                        None,
		"[2001:db8::1]":                       None,
		"[2001:db8::1]:443":                   None,
		"[fe80::1%eth0]:443":                  None,
		"2001:db8:1":                          NamedSecret,
		"a1::b2":                              NamedSecret,
		"2001:db8::1::2":                      NamedSecret,
		"2001:db8:0:0:0:0:0:0:1":              NamedSecret,
		"1:2:3:4:5:6:7:8::":                   NamedSecret,
		"12345::1":                            NamedSecret,
		"2001:db8::g":                         NamedSecret,
		":2001:db8::1":                        NamedSecret,
		"2001:db8::1:":                        NamedSecret,
		"2001:db8::1%":                        NamedSecret,
		"::ffff:10.0.1":                       NamedSecret,
		"1:2:3:4:5:6:7:10.0.0.1":              NamedSecret,
		"[2001:db8::1":                        NamedSecret,
		"[2001:db8::1]443":                    NamedSecret,
		"[2001:db8::1]:":                      NamedSecret,
		"1f:e2:d3:c4:b5:a6":                   NamedSecret,
		"d41d8cd98f00b204e9800998ecf8427e::1": NamedSecret,
		"::1" + strings.Repeat("0", 100):      NamedSecret,
	} {
		require.Equal(t, want, Named([]byte("password"), []byte(value)), value)
	}
	require.Equal(t, None, Text([]byte("token=2001:db8::1 x")))
	require.Equal(t, None, Text([]byte(`{"token":"fe80::1%eth0"}`)))
	require.Equal(t, NamedSecret, Text([]byte("token=2001:db8::1::2 x")))
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

// TestMayName: names of credentials in other words than those of the rules.
func TestMayName(t *testing.T) {
	for _, name := range []string{
		"password", "DB_PASSWORD", "--password", "dbPassword", "passwords", "SSL_KEYSTORE_PASSWORD_CONFIG", "DB_PASS", "passphrase",
		"secretOrKey", "signing_key", "encryptionKey", "STORAGE_ACCOUNT_KEY", "UsernamePasswordCredentials", "HTTPBasicAuth",
		"x-honeycomb-team", "uptrace-dsn", "Authorization", "jwtSecret", "tokens", "db.password.prod", "session_id", "iban",
		"--requirepass", "masterauth", "passcode", "psk", "service_key", "FERNET_KEY", "encrypt.key", "crypto.createHmac", "Algorithm.HMAC256",
		"Keys.hmacShaKeyFor", "signWith", "aes.NewCipher", "crypto.createCipheriv", "REPUBLIC_DB_PASSWORD", "publicationApiKey",
		"INVITE_TOKEN", "inviteSecret", "WTF_CSRF_SECRET_KEY", "csrfSecret", "TOKEN_FILE_PASSWORD", "tokenNameSecret", "PUBLIC_API_SECRET",
		"publicKeyPassword", "VITE_ADMIN_PASSWORD", "PresharedKey", "pre-shared-key", "decryptionKey", "validationKey", "Ocp-Apim-Subscription-Key",
		"x-functions-key", "DB_PASS_PROD", "bindpw", "rootpw", "root_pw", "dbpass", "-storepass", "keypass",
	} {
		require.True(t, MayName(name), name)
	}
	for _, name := range []string{
		"", "name", "key", "passenger", "PassThrough", "tokenizer", "max_tokens", "token_url", "public_key", "author", "authors", "secretary",
		"keyboard", "password_file", "http.request.method", "routing_key", "HmacSHA256", "ciphertext", "publicKey", "PUBLICKEY",
		"NEXT_PUBLIC_API_KEY", "VITE_API_KEY", "REACT_APP_API_KEY", "stripePublishableKey", "X-CSRF-Token", "csrfToken", "csrfmiddlewaretoken",
		"csrf_token_header", "tokenUrl", "token-type", "maxTokens", "num_tokens", "APPINSIGHTS_INSTRUMENTATIONKEY", "passwordFile", "secretName",
		"bypass", "compass", "keypassage", "validation", "foreignKey", "function_keys",
	} {
		require.False(t, MayName(name), name)
	}
}
