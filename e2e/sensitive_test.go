// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/rules/rulestest"
	"assay/internal/rules/sensitive"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// TestNoSensitiveValueIsStored puts secrets of all kinds into every text field of telemetry except the parts
// of a service key. It searches all outputs for them: the files of the store, the log at level debug, the
// metrics, the responses and the reports.
func TestNoSensitiveValueIsStored(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--log-level", "debug",
		"--commit-interval", "5ms", "--score-interval", "300ms", "--trace-idle", "300ms")
	s := newSecrets(t)
	// The search must find this word, or it would not find secrets either.
	visible := s.word()

	var all []rulestest.Request
	now := time.Now().Add(-time.Second)
	for round := range len(texts) + 1 {
		r := record{
			at: now.Add(time.Duration(round)), text: s.round(round),
			service: append(rulestest.Service(fmt.Sprintf("secrets-%02d", round)), s.attributes("resource")...),
			more:    s.attributes,
		}
		if round == len(texts) {
			r.text = func(string) string { return visible }
		}
		all = append(all, r.requests()...)
	}
	all = append(all, s.corpus(t, now)...)

	files := t.TempDir()
	var out haystack
	for i, r := range all {
		out.add(fmt.Sprintf("answer to request %d", i), []byte(d.mustPost(t, bootstrapKey, r)))
		require.NoError(t, os.WriteFile(filepath.Join(files, fmt.Sprintf("%05d.binpb", i)), r.Body, 0o600))
	}
	for i, r := range s.malformed() {
		name := fmt.Sprintf("malformed request %d", i)
		a, err := d.post(t.Context(), bootstrapKey, wire.Logs, r.body, "Content-Type", r.contentType)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, a.Status, "%s: %s", name, r.body)
		out.add("answer to "+name, a.Body)
		file := filepath.Join(t.TempDir(), "malformed")
		require.NoError(t, os.WriteFile(file, r.body, 0o600))
		report := runAssay(t, nil, "score", file)
		require.Equal(t, 2, report.Code, report.Stdout)
		out.add("report of "+name, []byte(report.Stdout+report.Stderr))
	}
	for _, authorization := range []string{"Bearer " + s.secret("API key", "assay_sk_aaaaaa_"+s.hex(32)), "Basic " + s.word(), s.secret("credential", s.word()), "Bearer " + s.jwt()} {
		for _, url := range []string{d.REST + "/v1/services", d.OTLPHTTP + "/v1/logs"} {
			a, err := d.ask(t.Context(), http.MethodPost, url, []byte("{}"), "Authorization", authorization, "Content-Type", "application/json")
			require.NoError(t, err)
			require.Contains(t, []int{http.StatusUnauthorized, http.StatusMethodNotAllowed}, a.Status)
			out.add("refusal", a.Body)
		}
	}

	last := fmt.Sprintf("secrets-%02d", len(texts)-1)
	var passed []string
	eventually(t, func() bool {
		passed = passed[:0]
		failed := d.failedRules(t, bootstrapKey, last)
		for _, rule := range []string{
			"RES-004", "RES-006", "RES-010", "SPA-001", "SPA-002", "SPA-004", "SPA-005", "SPA-006", "MET-002", "MET-007", "MET-008", "LOG-002", "LOG-003",
		} {
			if !slices.Contains(failed, rule) {
				passed = append(passed, rule)
			}
		}
		return len(passed) == 0
	}, "these rules do not fail: %q", &passed)

	for path := range d.everyPath(t) {
		a := d.get(t, bootstrapKey, path)
		require.Equal(t, http.StatusOK, a.Status, path)
		out.add("GET "+path, a.Body)
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/"} {
		a, err := d.ask(t.Context(), http.MethodGet, d.Root+path, nil)
		require.NoError(t, err)
		out.add("GET "+path, a.Body)
	}
	for _, format := range []string{"table", "json"} {
		for _, command := range []string{"insight", "key", "organization"} {
			if format == "json" {
				r := d.assay(t, command, "list", "--format", format)
				require.Zero(t, r.Code, r.Stderr)
				out.add(command+" list as JSON", []byte(r.Stdout+r.Stderr))
				continue
			}
			r := d.assay(t, command, "list")
			require.Zero(t, r.Code, r.Stderr)
			out.add(command+" list", []byte(r.Stdout+r.Stderr))
		}
	}
	out.addStore(t, "running store", d.Dir)
	d.stop(t)
	out.addStore(t, "store", d.Dir)
	out.add("log", []byte(d.Stdout.String()+d.Log.String()))

	inputs, err := filepath.Glob(filepath.Join(files, "*.binpb"))
	require.NoError(t, err)
	for _, format := range []string{"text", "json", "markdown", "junit", "sarif"} {
		r := runAssay(t, nil, append([]string{"score", "--format", format}, inputs...)...)
		require.Zero(t, r.Code, r.Stderr)
		require.Contains(t, r.Stdout, "secrets-00")
		out.add("report as "+format, []byte(r.Stdout+r.Stderr))
	}

	t.Logf("%d secrets in %d requests; searched %d MiB in %d outputs", len(s.all), len(all), out.size()>>20, len(out))
	found := s.find(out)
	for i, leak := range found {
		if i < 20 {
			t.Error(leak)
		}
	}
	require.Empty(t, len(found), "secrets were found")

	seen := map[string]bool{}
	for _, piece := range out {
		if bytes.Contains(piece.text, []byte(visible)) {
			seen[strings.Fields(piece.name)[0]] = true
		}
	}
	for _, where := range []string{"GET", "store", "report", "insight"} {
		require.True(t, seen[where], "text that is not secret is not found in %s: the search is broken", where)
	}
}

// everyPath returns the paths of all resources and pages of the REST API.
func (d *daemon) everyPath(t *testing.T) map[string]bool {
	t.Helper()
	paths := map[string]bool{"/v1/organization": true}
	var walk func(path, below string)
	walk = func(path, below string) {
		for path != "" {
			paths[path] = true
			page := getAs[[]struct{ ID string }](t, d, bootstrapKey, path)
			for _, item := range page.Data {
				paths[below+item.ID] = true
				if below == "/v1/services/" {
					walk(below+item.ID+"/insights?limit=100&status=active,archived,muted", "/v1/insights/")
				}
			}
			path = strings.TrimPrefix(page.Links["next"], "/api")
		}
	}
	walk("/v1/services?limit=10", "/v1/services/")
	walk("/v1/insights?limit=100", "/v1/insights/")
	return paths
}

// haystack is the output to search.
type haystack []piece

type piece struct {
	name string
	text []byte
}

func (h *haystack) add(name string, text []byte) { *h = append(*h, piece{name, text}) }

func (h *haystack) addFiles(t *testing.T, name, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			h.add(name+" "+filepath.Base(path), text)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a running server has removed it
		}
		return err
	}))
}

func (h haystack) size() (n int) {
	for _, p := range h {
		n += len(p.text)
	}
	return n
}

// secrets generates secret values and records where they were sent.
type secrets struct {
	rng *rand.Rand
	all map[string][]needle // by their first bytes
}

type needle struct{ text, where string }

// needleHead is the minimum length of a secret, and shortestNumber that of a secret of digits: shorter numbers are also in
// random ids and in measured values.
const (
	needleHead     = 8
	shortestNumber = 12
)

func newSecrets(t *testing.T) *secrets {
	t.Helper()
	return &secrets{rng: rand.New(rand.NewPCG(1, 2)), all: map[string][]needle{}}
}

// secret records a secret and returns it.
func (s *secrets) secret(where, text string) string {
	if len(text) < needleHead {
		panic("too short to be told from other text: " + text)
	}
	head := text[:needleHead]
	s.all[head] = append(s.all[head], needle{text, where})
	return text
}

// find returns the secrets in the outputs, each with its first location.
func (s *secrets) find(h haystack) (leaks []string) {
	told := map[needle]bool{}
	for _, p := range h {
		for i := 0; i+needleHead <= len(p.text); i++ {
			for _, n := range s.all[string(p.text[i:i+needleHead])] {
				if !told[n] && bytes.HasPrefix(p.text[i:], []byte(n.text)) {
					told[n] = true
					around := p.text[max(0, i-60):min(len(p.text), i+len(n.text)+30)]
					leaks = append(leaks, fmt.Sprintf("%q of the %s stands in %s: %q", n.text, n.where, p.name, around))
				}
			}
		}
	}
	return leaks
}

func (s *secrets) pick(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[s.rng.IntN(len(alphabet))]
	}
	return string(b)
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
	base62 = lower + upper + digits
)

func (s *secrets) hex(n int) string { return s.pick("0123456789abcdef", n) }

// word returns text that is not recognised as a secret.
func (s *secrets) word() string { return "q" + s.pick(lower, 5) + "z" + s.pick(lower, 6) }

// token returns text with lower case, upper case and a digit.
func (s *secrets) token(n int) string { return "aZ7" + s.pick(base62, n-3) }

// card returns a payment card number of n digits.
func (s *secrets) card(prefix string, n int) string {
	number := prefix + s.pick(digits, n-len(prefix)-1)
	sum := 0
	for i := range number {
		v := int(number[len(number)-1-i] - '0')
		if i%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return number + strconv.Itoa((10-sum%10)%10)
}

// iban returns a British account number with its checksum.
func (s *secrets) iban() string {
	const bank = "WEST"
	account := s.pick(digits, 14)
	number := ""
	for _, r := range bank + account + "GB00" {
		if r >= 'A' {
			number += strconv.Itoa(int(r-'A') + 10)
		} else {
			number += string(r)
		}
	}
	n, _ := new(big.Int).SetString(number, 10)
	return fmt.Sprintf("GB%02d%s%s", 98-new(big.Int).Mod(n, big.NewInt(97)).Int64(), bank, account)
}

func (s *secrets) jwt() string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"ES256"}`) + "." + s.secret("JWT", part(`{"sub":"`+s.word()+`"}`)) + "." + s.secret("JWT", s.token(43))
}

// in returns a function that replaces %s in a format by a secret.
func in(format string, make func(s *secrets) string) func(*secrets, string) string {
	return func(s *secrets, where string) string {
		return fmt.Sprintf(format, s.secret(where, make(s)))
	}
}

func token(n int) func(*secrets) string { return func(s *secrets) string { return s.token(n) } }

// texts generate text that holds a secret in any field.
var texts = []func(s *secrets, where string) string{
	in("user %s@example.com created", (*secrets).word),
	in("to=%s@mail.example.org", (*secrets).word),
	in("GET /users/%s@example.net/orders", (*secrets).word),
	in("redirect=%%2Finvite%%3Fto%%3D%s%%40example.com", (*secrets).word),
	in("User(name=x, email=x@%s.example, active=true)", (*secrets).word),
	in("card %s declined", func(s *secrets) string { return s.card("4", 16) }),
	in("pan=%s", func(s *secrets) string { return s.card("37", 15) }),
	func(s *secrets, where string) string {
		n := s.card("51", 16)
		return "paid with " + n[:4] + s.secret(where, " "+n[4:8]+" "+n[8:12]+" "+n[12:]) + " today"
	},
	func(s *secrets, where string) string {
		n := s.card("4", 16)
		return "paid with " + n[:4] + s.secret(where, "-"+n[4:8]+"-"+n[8:12]+"-"+n[12:])
	},
	in("applicant %s approved", func(s *secrets) string {
		return fmt.Sprintf("%03d-%02d-%04d", 100+s.rng.IntN(500), 10+s.rng.IntN(80), 1000+s.rng.IntN(8000))
	}),
	in("payout to %s done", (*secrets).iban),
	func(s *secrets, where string) string {
		n := s.iban()
		return "payout to " + n[:4] + s.secret(where, " "+n[4:8]+" "+n[8:12]+" "+n[12:16]+" "+n[16:20]+" "+n[20:]) + " done"
	},
	in("sent Authorization as Bearer %s to it", token(24)),
	in("proxy wants Basic %s", func(s *secrets) string {
		return base64.StdEncoding.EncodeToString([]byte(s.word() + ":" + s.word()))
	}),
	func(s *secrets, _ string) string { return "cache miss for " + s.jwt() },
	in("key AKIA%s used", func(s *secrets) string { return s.pick(upper+"234567", 16) }),
	in("key ASIA%s used", func(s *secrets) string { return s.pick(upper+"234567", 16) }),
	in("client sk-proj-%s", token(48)),
	in("pushed with ghp_%s", token(36)),
	in("runner glpat-%s", token(20)),
	in("bot xoxb-123456789012-%s", token(24)),
	in("charging with sk_live_%s", token(24)),
	in("maps AIza%s", token(35)),
	in("-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----", token(64)),
	in("mysql://app:%s@db:3306/shop", token(12)),
	in("amqp://orders:%s@rabbit/%%2F", (*secrets).word),
	in("login password=%s failed", (*secrets).word),
	in("PGPASSWORD=%s psql", (*secrets).word),
	in("-Djavax.net.ssl.trustStorePassword=%s", (*secrets).word),
	in(`{"user":"x","password":"%s"}`, (*secrets).word),
	in(`{"user":{"client_secret": "%s"}}`, (*secrets).word),
	in("password: %s1!", (*secrets).word),
	in("api_key=%s", (*secrets).word),
	in("X-Api-Key: %s", token(20)),
	in("spring.datasource.password=%s", (*secrets).word),
	in("access_key=%s&x=1", (*secrets).word),
	in("Cookie: JSESSIONID=%s; theme=dark", token(16)),
	in("session_id=%s for user 12", token(12)),
	in("patient_id=%s", func(s *secrets) string { return s.pick("123456789", shortestNumber) }),
	in("diagnosis=%s", (*secrets).word),
	in("insurance_id=%s", token(10)),
	in("cvv=%s", func(s *secrets) string { return s.pick("123456789", shortestNumber) }),
	in("refresh_token=1//%s", token(16)),
	in("Server=db;User Id=app;Password=%s;Encrypt=True", (*secrets).word),
	// Evidence shows the beginning of a text: a truncated secret must be removed as well.
	func(s *secrets, where string) string {
		part := base64.RawURLEncoding.EncodeToString
		return "cache miss for " + part([]byte(`{"alg":"ES256"}`)) + "." + s.secret(where, part([]byte(`{"sub":"`+s.token(1200)+`"}`))) + "." + s.token(43)
	},
	func(s *secrets, where string) string {
		const seen = 1024
		var b strings.Builder
		for b.Len() < seen-220 {
			b.WriteString("Bearer " + s.secret(where, s.token(190)) + " ")
		}
		b.WriteString(strings.Repeat(".", seen-b.Len()-len("to "+s.word()+"@")) + "to " + s.secret(where, s.word()) + "@example.com")
		return b.String()
	},
}

// round returns the generator of texts for a round. It shifts in each round, so that every kind of secret is
// sent in every field.
func (s *secrets) round(round int) func(place string) string {
	i := round
	return func(place string) string {
		i++
		return texts[i%len(texts)](s, place)
	}
}

// attributes returns attributes that are secret by their key.
func (s *secrets) attributes(place string) []rulestest.Attr {
	secret := func(key string) string { return s.secret(place+" attribute "+key, s.word()) }
	number := func(key string, n int) int {
		v, _ := strconv.Atoi(s.secret(place+" attribute "+key, s.pick("123456789", n)))
		return v
	}
	return rulestest.Attrs(
		"password", secret("password"), "db_password", secret("db_password"), "trustStorePassword", secret("trustStorePassword"),
		"spring.datasource.password", secret("spring.datasource.password"), "x-api-key", secret("x-api-key"),
		"http.request.Header.authorization", []any{secret("http.request.Header.authorization")},
		"http.request.Header.cookie", []any{secret("http.request.Header.cookie")},
		"db.query.parameter.password", secret("db.query.parameter.password"),
		"diagnosis", secret("diagnosis"), "patient_id", number("patient_id", 12), "credit_card", number("credit_card", 15),
		"process.command_args", []any{"app", "--password", secret("flag"), "--token=" + secret("flag")},
		"request", rulestest.Attrs("user", rulestest.Attrs("Password", secret("nested"), "tokens", []any{rulestest.Attrs("access_token", secret("nested"))})),
	)
}

// corpus returns the positives of the detector's corpora as telemetry. The parts that the detector removes
// are secret, as far as they are distinguishable from other text.
func (s *secrets) corpus(t *testing.T, now time.Time) []rulestest.Request {
	t.Helper()
	samples := positives(t)
	require.Greater(t, len(samples), 500)
	var harmless strings.Builder // texts that may be in the output
	harmless.WriteString(ownTexts(t))
	for _, p := range samples {
		fmt.Fprintln(&harmless, p.key, p.clean)
	}
	var spans []*tracepb.Span
	var records []*logspb.LogRecord
	for _, p := range samples {
		for _, secret := range p.taken() {
			if len(secret) >= needleHead && (len(secret) >= shortestNumber || strings.Trim(secret, digits) != "") && !strings.Contains(harmless.String(), secret) {
				s.secret(fmt.Sprintf("corpus (%q)", p.text), secret)
			}
		}
		key, name, body := p.key, "GET /", rulestest.Value(rulestest.Attrs(p.key, p.text))
		if key == "" {
			key, name, body = "text", p.text, rulestest.Value(p.text)
		}
		spans = append(spans, rulestest.Span(1, len(spans)+1, 0, func(span *tracepb.Span) {
			span.Name, span.Kind, span.Attributes = name, tracepb.Span_SPAN_KIND_CLIENT, rulestest.Attrs(key, p.text)
			span.StartTimeUnixNano, span.EndTimeUnixNano = rulestest.Nano(now)-1, rulestest.Nano(now)
		}))
		records = append(records, &logspb.LogRecord{TimeUnixNano: rulestest.Nano(now), Body: body, Attributes: rulestest.Attrs(key, p.text)})
	}
	var all []rulestest.Request
	const atATime = 15 // few enough that each is in the evidence of a service
	for i := 0; i < len(spans); i += atATime {
		service := rulestest.Service(fmt.Sprintf("corpus-%03d", i))
		j := min(len(spans), i+atATime)
		all = append(all,
			rulestest.Traces(rulestest.Spans(service, spans[i:j]...)),
			rulestest.LogsRequest(rulestest.Logs(service, records[i:j]...)))
	}
	return all
}

// positive is a text of the corpora with a secret in it, or a secret under its key.
type positive struct{ key, text, clean string }

func positives(t *testing.T) (all []positive) {
	t.Helper()
	for _, file := range []string{"corpus.jsonl", "holdout.jsonl"} {
		f, err := os.Open(filepath.Join("../internal/rules/sensitive/testdata", file))
		require.NoError(t, err)
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var sample struct {
				Key, Kind string
				Value     any
			}
			require.NoError(t, json.Unmarshal(lines.Bytes(), &sample))
			if text, ok := sample.Value.(string); ok && sample.Kind != "none" {
				all = append(all, positive{sample.Key, text, sensitive.CleanNamed([]byte(sample.Key), []byte(text))})
			}
		}
		require.NoError(t, lines.Err())
	}
	return all
}

// taken returns the removed parts of the text.
func (p positive) taken() (all []string) {
	rest := p.text
	for i, kept := range strings.Split(p.clean, sensitive.Redacted) {
		at := strings.Index(rest, kept)
		if at < 0 {
			return nil // ambiguous
		}
		if i > 0 && kept != "" {
			all = append(all, rest[:at])
		}
		rest = rest[at+len(kept):]
	}
	return append(all, rest)
}

var ruleID = regexp.MustCompile(`(?m)^[A-Z]{3}-[0-9]{3}\b`)

// ownTexts returns the texts of the product itself.
func ownTexts(t *testing.T) string {
	t.Helper()
	r := runAssay(t, nil, "rules")
	require.Zero(t, r.Code, r.Stderr)
	var b strings.Builder
	for _, id := range ruleID.FindAllString(r.Stdout, -1) {
		one := runAssay(t, nil, "rules", id)
		require.Zero(t, one.Code, one.Stderr)
		b.WriteString(one.Stdout)
	}
	require.Greater(t, b.Len(), 10_000)
	return b.String()
}

type malformed struct {
	contentType string
	body        []byte
}

// malformed returns logs that cannot be decoded, with secrets where the error message quotes them.
func (s *secrets) malformed() (all []malformed) {
	word := func() string { return s.secret("malformed request", s.word()) }
	for _, format := range []string{
		`{"resourceLogs": password=%s}`,
		`{"resourceLogs": [{"scopeLogs": "password=%s"}]}`,
		`{"resourceLogs": [{"resource": {"attributes": [{"key": "password", "value": "%s"}]}}]}`,
		`{"resourceLogs": [{"resource": {"attributes": [{"key": "password", "value": {"intValue": "%s"}}]}}]}`,
		`{"resourceLogs": [{"resource": {"attributes": [{"key": "password", "value": {"bytesValue": "%s!"}}]}}]}`,
		`{"resourceLogs": [{"resource": {"attributes": [{"key": "password", "value": {"boolValue": "%s"}}]}}]}`,
		`{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "password=%s"}]}]}]}`,
		`{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "%s"}]}]}]}`,
		`{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"severityNumber": "%s"}]}]}]}`,
		`{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"%s": }]}]}]}`,
		`{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "password=%s`,
		"{\"resourceLogs\": [{\"schemaUrl\": \"password=%s\x01\"}]}",
		`password=%s`,
	} {
		all = append(all, malformed{"application/json", fmt.Appendf(nil, format, word())})
	}
	whole := rulestest.LogsRequest(rulestest.Logs(rulestest.Service("broken"),
		rulestest.Log("password="+word(), func(r *logspb.LogRecord) { r.Attributes = s.attributes("malformed request") }),
		&logspb.LogRecord{Body: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "password=" + word()}}})).Body
	return append(all,
		malformed{"application/x-protobuf", whole[:len(whole)-3]},
		malformed{"application/x-protobuf", []byte("password=" + word())},
		malformed{"application/x-protobuf", append(wiretest.InRecord([]byte("\x2a\x05\x0a\x13")), "password="+word()...)},
	)
}
