// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"assay"
)

// FuzzTarget: a path is forwarded unchanged and stays below the URL of the backend, even for a server that decodes and
// cleans it.
func FuzzTarget(f *testing.F) {
	for _, seed := range [][2]string{
		{"/findings", "a=1;b=2&c=%zz&d=+%2B&e=&&f=%E2%9C%93"},
		{"/executions/a%20b%252F", ""},
		{"//other/x", ""},
		{"/..;/x", ""},
		{`/a%5c..%5c..`, ""},
		{"/%2e%2e/%2f", "#"},
		{"@other/x", ""},
		{"/a?b", "c d"},
		{"/a#b", "\r\nHost: other"},
		{":80@other", ""},
		{"/ä", "é"},
	} {
		f.Add(seed[0], seed[1])
	}
	g, err := New(Config{URL: "http://backend:8080/base/x%2Fy", Sign: func(context.Context, *assay.Principal) (string, error) { return "", nil }})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, p, query string) {
		u, err := g.target(p, query)
		if err != nil {
			require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
			return
		}
		var wire strings.Builder
		require.NoError(t, (&http.Request{Method: "GET", URL: u, Host: u.Host, Header: http.Header{"User-Agent": noUserAgent}}).Write(&wire))
		target := "/base/x%2Fy" + p
		if query != "" {
			target += "?" + query
		}
		require.Equal(t, "GET "+target+" HTTP/1.1\r\nHost: backend:8080\r\n\r\n", wire.String())
		for _, slashes := range []*strings.Replacer{strings.NewReplacer(), strings.NewReplacer(`\`, "/")} {
			plain, err := url.PathUnescape(target[:len("/base/x%2Fy")+len(p)])
			require.NoError(t, err)
			plain = slashes.Replace(plain)
			var kept []string
			for segment := range strings.SplitSeq(plain, "/") {
				segment, _, _ = strings.Cut(segment, ";") // as servlet containers do
				kept = append(kept, segment)
			}
			cleaned := path.Clean(strings.Join(kept, "/"))
			require.True(t, cleaned == "/base/x/y" || strings.HasPrefix(cleaned, "/base/x/y/"), "%q", cleaned)
		}
	})
}

// FuzzMembers compares with encoding/json.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, ` { "a" : [ "]" , {"b":"\\\""} ] , "\u0061" : -1.5e3 } `, `{"a":{},"a":[]}`, `[]`, `null`, `"a"`, `{"":true,"é":"\ud83d\ude00"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isJSON([]byte(s)) {
			return
		}
		got := map[string]json.RawMessage{}
		members([]byte(s), func(name string, value []byte) { got[name] = value })
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &want) != nil || want == nil {
			require.Empty(t, got)
			return
		}
		require.Equal(t, want, got)
	})
}

// FuzzAnswer: for any response of the backend, the forwarded answer is JSON of limited size.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"data":[1],"meta":{"total":1},"links":{"a":"b"}}`, `{"error":{"code":"A","message":"b","details":{"c":"d"}}}`, `{"data":1,"links":{}}`, `[`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := refusal(http.StatusConflict, body, 0).(*failure)
		require.NotEmpty(t, e.public.Message)
		require.LessOrEqual(t, len(e.public.Message), maxMessage+len("…"))
		require.True(t, utf8.ValidString(e.public.Message))
		require.LessOrEqual(t, len(e.public.Details), maxDetails)
		if !isJSON(body) {
			return
		}
		a := unwrap(body)
		require.True(t, json.Valid(a.Data))
		require.True(t, a.Links == nil || json.Valid(a.Links) && a.Links[0] == '{')
		require.True(t, a.Total == nil || *a.Total >= 0)
	})
}
