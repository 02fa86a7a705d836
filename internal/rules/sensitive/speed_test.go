// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostile texts make a quadratic detector read the same bytes repeatedly.
var hostile = []string{
	"a@", "a@a@a@", "a%40", "a@b.", "@", "%40", "password=", "password=***", "password='***", `password="***`, `token=\"***`, "token=<", "token=${", "token={",
	"token=[", "cookie: ", "cookie: ***", "token=token=***", "token: ***", "session.id=", "a.session.id=x.", "arn:secret:abc123:", "PWD=/", "authorization: bearer ",
	"4", "4 ", "4111 ", "4111-", "1234567890123 ", "123-45-", "DE89 ", "DE12", "eyJ", "-eyJ", "eyJ.", "eyJhIjoxfQ.", "AKIA", "sk-", "sk-a-", "ghp_", "_", "-", "-----BEGIN ",
	"-----BEGIN PRIVATE KEY", "xoxb-", "Bearer ", "Bearer a-", "bearer+a+", "bearer=a", "basic+QUFB", "Basic ", "basic QUFB", "://", "://a:b", "://a:***@", "%3A%2F%2F", "%3A%2F%2Fa%3A", "=", " =", ":", " :", "]", `\`, `"`, "%22", "%22token%22%3A%22***",
	"é@", "x@tcp(", "a:x@tcp(", "\xff", "token=arn:" + then + "-", "a:***@tcp(", "glpat-", "sin=1 1 1 1 ", "111.444.777-", "cpf=", "token=token{", "cookie=;", "page token=", "eyw", "ewo.", "cookie:token:cookie:%(***", `"--token","`, `"--token",'***`, `'--token',\"***`,
	`\u003d`, `\u0022`, `token\u003d`, `token\u003d\u0022***`, `token\\\u003d\\\u0022***`, "\x1b[0m", "token=\x1b[0m", "token\x1b[0m=", "\x1b[0m=", `\u001b[0m`,
	`token=" `, `"token=" `, `token=\" `, `token=A('***`, `token=A('`, `token:A("\"***`, "token: a/b: ", "token: oauth2:", "\nglpat-", "\\ncookie: a1b2c3", "DE89+3704+", "DE89%20",
	"cookie%3D%26", "token%3D%22", "token%3Dnull%26", "cookie: a=?; ", `cookie="a=?; `, "token=arn:" + then + ".", "password= aaaaa1",
	`"411 `, `"a":"411 `, `"a":"411 1"`, `"a":       "411"`,
	`token: Some("`, `Some("`, `token=a("`, `token: Some("***`, "token: Err(\"", "token=" + then + "a(", `:\/\/`, `:\/\/a:b`, `:\/\/a:***@`, `:\\/\\`, `:\`,
	"\"token\":\n", `"token":` + then + "\n", "@__a_0", "token=@__a_0", "token=@a" + then + "1", "token=@1", "token=?::a", "token=$1::",
	"0123456789abcdef0123456789abcdef/", "0123456789abcdef0123456789abcdef/4111111111111111",
	"://a:b@sha256:", "://a:b" + then + "@sha256:", "a-4111-1111-1111-1111-", "a-123-45-6789-", "AIzaSyX", "AIzaSy-" + then + "X",
	`\u0022token=a(`, `\u0022token=a( `, `%22token=a(`, "token=a( ", "token=a(" + then + " ", "\"token\":\n\"a\":", "\"token\":\n\"a\"" + then + " ", "\"token\":\n\"a\"" + then + `\"`, "\"token\":\n1", "\"token\":\n" + then + "1", "://a:b@sha256:012345", "token=@a::text",
	"pwd:/pwd:/: " + then + "a", "pwd:/pwd:/:" + then + " ",
}

// then separates two parts of a hostile text: it repeats the part before and then the part after.
const then = "|"

// TestLinear compares the time per byte of a short and a long text of the same kind, which must not grow with
// the length. A quadratic scan takes 32 times as long on the long text in every attempt.
func TestLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compares running times, which other work on the machine disturbs")
	}
	const small, large, attempts = 8 << 10, 256 << 10, 100 // on a busy machine many attempts are disturbed
	fastest := func(s string, size int, search func([]byte)) time.Duration {
		head, tail, _ := strings.Cut(s, then)
		text := []byte(strings.Repeat(head, size/len(head)+1)[:size])
		if tail != "" {
			text = append(text[:size/2], strings.Repeat(tail, size/2/len(tail))...)
		}
		best := time.Duration(1 << 62)
		for range 3 {
			start := time.Now()
			for n := 0; n < large; n += size {
				search(text)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	searches := map[string]func([]byte){"text": func(s []byte) { Text(s) }, "clean": func(s []byte) { Clean(s) }} // Clean goes on after a finding
	for _, s := range hostile {
		for name, search := range searches {
			ratio := 0.0
			for range attempts {
				short, long := fastest(s, small, search), fastest(s, large, search)
				if ratio = float64(long) / float64(short+20*time.Microsecond); ratio < 6 {
					break
				}
			}
			require.Less(t, ratio, 6.0, "%s %q", name, s)
		}
	}
}

var noFinding = map[string]string{
	"access log": `10.12.4.7 - - [21/Nov/2026:04:13:59 +0000] "GET /api/v1/orders/8841?page=2&sort=created_at HTTP/1.1" 200 5123 "https://shop.example.com/cart" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36" rt=0.043`,
	"json":       `{"ts":"2026-11-21T04:13:59.123456Z","level":"info","logger":"orders.service","msg":"order accepted","order_id":"11bed264-3858-400d-b1e8-cc21db624e1a","items":3,"total":"59.90","currency":"EUR","trace_id":"acf07a773f0c914ee5e9cfeb8dda8d69","span_id":"8e5afcaecfdc4af3","duration_ms":12.4}`,
	"logfmt":     `time=2026-11-21T04:13:59.123Z level=INFO msg="request done" method=POST path=/v1/checkout status=201 duration=12.4ms bytes=512 pod=cart-7d9f8b6c5d-x2x9z node=ip-10-0-4-17 request_id=7c474427-c51c-41c7-a562-e5753dbc5119`,
	"prose":      `Could not reserve stock for product 14: the warehouse answered after the deadline and the reservation was rolled back, the next attempt follows in thirty seconds`,
	"stack":      "java.lang.IllegalStateException: stock of product 14 is out of step\n\tat com.example.shop.stock.StockService.reserve(StockService.java:184)\n\tat com.example.shop.order.OrderService.accept(OrderService.java:92)\n\tat java.base/jdk.internal.reflect.DirectMethodHandleAccessor.invoke(DirectMethodHandleAccessor.java:103)\n\tat org.springframework.web.servlet.FrameworkServlet.service(FrameworkServlet.java:885)\n",
	"sql":        `SELECT o.id, o.created_at, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status = $1 AND o.created_at > $2 ORDER BY o.created_at DESC LIMIT 50`,
	"short":      `GET /items/{id}`,
}

func TestNoAllocation(t *testing.T) {
	key := []byte("acme.note")
	for name, s := range noFinding {
		text := []byte(s)
		require.Equal(t, None, Text(text), name)
		require.Zero(t, testing.AllocsPerRun(100, func() { Named(key, text) }), name)
		require.Zero(t, testing.AllocsPerRun(100, func() { Key(text); Flag(text) }), name)
	}
	for _, s := range []string{"password=***", "session.id=abc", `{"token":null,"cookie":"[REDACTED]"}`, "4111 1111 1111 1112", "password: Some(\"***\")", "password=@__p_0", `http:\/\/a:***@b`, "\"token\":\nnull", "docker://a:b@sha256:012345", "token=$1::TEXT", "user@1000.service", "https://a:${B}@c", "eyJhIjoxfQ.x", "basic QUFB", "cpf=111.444.777-36", "76.086.428-6", "cookie: Path=/; Secure"} {
		text := []byte(s)
		require.Equal(t, None, Text(text), s)
		require.Zero(t, testing.AllocsPerRun(100, func() { Text(text) }), s)
	}
	for _, key := range []string{"token.count", "session.id", "http.request.header.accept", "password"} {
		key := []byte(key)
		require.Zero(t, testing.AllocsPerRun(100, func() { Named(key, nil); Integer(key, 1_750_069_800_001) }), string(key))
	}
}

func BenchmarkText(b *testing.B) {
	for name, s := range noFinding {
		for _, size := range []struct {
			name string
			text []byte
		}{{"line", []byte(s)}, {"16k", bytes.Repeat([]byte(s+"\n"), 16<<10/len(s))}} {
			b.Run(name+"/"+size.name, func(b *testing.B) {
				b.SetBytes(int64(len(size.text)))
				b.ReportAllocs()
				for b.Loop() {
					if Text(size.text) != None {
						b.Fatal("found something")
					}
				}
			})
		}
	}
}

func BenchmarkNamed(b *testing.B) {
	for _, kv := range [][2]string{
		{"http.request.method", "GET"},
		{"url.path", "/v1/orders/8841"},
		{"k8s.pod.name", "cart-7d9f8b6c5d-x2x9z"},
		{"service.instance.id", "7c474427-c51c-41c7-a562-e5753dbc5119"},
		{"session.id", "7c474427-c51c-41c7-a562-e5753dbc5119"},
	} {
		b.Run(kv[0], func(b *testing.B) {
			key, value := []byte(kv[0]), []byte(kv[1])
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if Named(key, value) != None {
					b.Fatal("found something")
				}
			}
		})
	}
}
