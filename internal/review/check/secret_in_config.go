// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/base64"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/sensitive"
)

var secretInConfig = &Check{
	ID:       "secret-in-config",
	Title:    "Credential is written out in a configuration or an exporter",
	Category: SensitiveData,
	Severity: Critical,
	Masked:   true,
	Why: "A credential in a repository is known to everyone who can read the repository, its clones and its builds, and it stays in the history after its removal. " +
		"With an ingest key, they can send telemetry in the name of the organization, and with some keys also read it.",
	Fix: "Revoke the credential. Then read the new one from the environment or from a secret store: `${env:NAME}` in a Collector configuration, `${NAME}` in a Compose file, " +
		"`valueFrom.secretKeyRef` in a Kubernetes object, and a sealed or external secret instead of a `Secret` in the repository. " +
		"In code, leave the headers of an exporter to `OTEL_EXPORTER_OTLP_HEADERS`.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		for name, value := range exporterHeaders(u) {
			header, _ := u.Known(name)
			text, known := u.Known(value)
			at := literal(u, value)
			if known && at.Kind == syntax.String && secretHeader(header, text) {
				p.mark(u, at, Finding{Subject: header, Message: fmt.Sprintf("The value of the header `%s` is a credential that is written out.", header)})
			}
		}
		for name, list := range headerLists(u) {
			text, known := u.Known(list)
			if at := literal(u, list); known && at.Kind == syntax.String && secretInHeaders(text) {
				p.mark(u, at, Finding{Subject: name, Message: fmt.Sprintf("The value of `%s` has a credential that is written out.", name)})
			}
		}
	},
	Config: func(p *Pass, f *configfile.File) { p.secretsIn(f, nil) },
	Repository: func(p *RepositoryPass) { // copies of a credential that another file or variable has
		known := map[string]bool{}
		for _, f := range p.Configs {
			first := NewPass(p.Check, func(found Finding) {
				known[strings.Trim(string(f.Source[found.Start:found.End]), `"'`)] = true
			}, nil)
			first.secretsIn(f, nil)
		}
		if len(known) == 0 {
			return
		}
		for _, f := range p.Configs {
			p.secretsIn(f, known)
		}
	},
}

// secretsIn reports the credentials in a configuration, or only the others that are equal to known ones.
func (p *Pass) secretsIn(f *configfile.File, known map[string]bool) {
	if isExample(f) || (f.Kind == configfile.Env || f.Kind == configfile.Compose) && testFile.MatchString(f.Path) {
		return
	}
	switch f.Kind {
	case configfile.HelmValues, configfile.Dockerfile, configfile.Compose, configfile.Kubernetes, configfile.Env:
		p.secretsInEnvironment(f, known)
	}
	switch {
	case known != nil:
	case f.Kind == configfile.Collector, f.Kind == configfile.SDK, f.Kind == configfile.HelmValues:
		p.secretsInSettings(f)
	case f.Kind == configfile.Logging:
		p.secretsInSpring(f)
	}
}

// testFile matches the path of an environment or Compose file for tests.
var testFile = regexp.MustCompile(`(?i)(^|[/._-])(test|tests|testing|ci|e2e)([/._-]|$)`)

func (p *Pass) secretsInEnvironment(f *configfile.File, known map[string]bool) {
	development := (f.Kind == configfile.Compose || f.Kind == configfile.Env) && !production.MatchString(f.Path)
	for _, v := range f.Environment {
		least := 8
		switch {
		case development && mixedCase(v.Value):
			least = 12
		case development:
			least = 16 // mostly made-up passwords
		}
		property := headersProperty.FindStringSubmatch(v.Value)
		reported := true
		switch {
		case property != nil && strings.HasPrefix(v.Name, "JAVA") && secretInHeaders(property[1]):
		case strings.HasSuffix(v.Name, "_HEADERS") && strings.HasPrefix(v.Name, "OTEL_"):
			reported = secretInHeaders(v.Value)
		case !v.Literal, sensitive.PublicName(v.Name):
			continue
		case f.Kind == configfile.Compose && localDatabase(f, v):
			reported = false
		case sensitive.CredentialName(v.Name) && secretValue(v.Value, least), secretInURL(v.Value), secretInConnection(v.Value), knownCredential(v.Value):
		default:
			reported = false
		}
		url := urlPassword.FindStringSubmatch(v.Value)
		copied := known[v.Value] && sensitive.CredentialName(v.Name) || url != nil && known[url[1]]
		if reported != (known == nil) || known != nil && !copied {
			continue
		}
		var fix []Edit
		if f.Kind == configfile.Compose && v.Literal && property == nil && !notProduction.MatchString(f.Path) { // development environments may not set the variable
			fix = []Edit{{Start: v.Start, End: v.End, Text: "${" + v.Name + "}", Variable: v.Name, Service: v.Service}}
		}
		p.secret(f, v.Service, v.Name, v.Start, v.End, fix)
	}
}

func (p *Pass) secretsInSettings(f *configfile.File) {
	configfile.Walk(f.YAML, func(above []string, key, value *yaml.Node) {
		if f.Kind == configfile.SDK && p.secretInExporterHeaders(f, above, key, value) {
			return
		}
		text := configfile.Text(value)
		if text == "" || strings.Contains(text, "${") || strings.Contains(text, "{{") || value.Kind != yaml.ScalarNode {
			return
		}
		parent := ""
		if len(above) > 0 {
			parent = above[len(above)-1]
		}
		least := 6
		if f.Kind == configfile.HelmValues {
			least = 8
			if parent == "env" || strings.HasPrefix(parent, "extraEnv") || parent == "environment" {
				return // secretsInEnvironment reports variables
			}
		}
		name := key.Value
		switch {
		case sensitive.PublicName(name), secretReference.MatchString(name):
			return
		case strings.HasSuffix(parent, "headers") || strings.HasSuffix(parent, "Headers"):
			if !sensitive.CredentialHeader(name) || !secretValue(credential(text), least) {
				return
			}
		case strings.EqualFold(name, "key") && parent == "api", sensitive.CredentialName(name), strings.EqualFold(name, "authorization"):
			if !secretValue(credential(text), least) {
				return
			}
		case secretInURL(text), secretInConnection(text), knownCredential(text):
		default:
			return
		}
		start, end := f.Range(value)
		var fix []Edit
		if f.Kind == configfile.Collector {
			component := strings.Join(above[min(1, len(above)):], "_") // with the names of its settings
			variable := VariableName(strings.NewReplacer("_headers", "", "_[]", "").Replace(component + "_" + name))
			fix = []Edit{{Start: start, End: end, Text: `"${env:` + variable + `}"`, Variable: variable}} // quoted for flow mappings
		}
		p.secret(f, "", strings.Join(append(above[:len(above):len(above)], name), "."), start, end, fix)
	})
}

var notVariable = regexp.MustCompile(`[^A-Z0-9]+`)

// VariableName returns the name of an environment variable for a component or service.
func VariableName(name string) string {
	return strings.Trim(notVariable.ReplaceAllString(strings.ToUpper(name), "_"), "_")
}

// headersProperty matches the headers of exporters in the options of a JVM.
var headersProperty = regexp.MustCompile(`-Dotel\.exporter\.otlp\.(?:[a-z]+\.)?headers=["']?([^\s"']+)`)

// secretReference matches settings for the name of a Secret object.
var secretReference = regexp.MustCompile(`(?i)(existing|tls|pull|image|cert|certificate|ca)[_-]?secret$`)

// springHeaders matches properties of Spring Boot for the headers of OTLP exporters. A property has one header, named at
// its end, or a list of headers.
var springHeaders = regexp.MustCompile(`(?i)^(otel\.exporter\.otlp|management\.(otlp|opentelemetry))\.([\w-]+\.)*headers(\.[\w-]+)?$`)

// secretsInSpring reports the credentials in the headers of OTLP exporters in the properties of a Spring Boot program.
func (p *Pass) secretsInSpring(f *configfile.File) {
	check := func(name, value string, start, end int) {
		header := name[strings.LastIndexByte(name, '.')+1:]
		if springHeaders.MatchString(name) && !strings.Contains(value, "${") && (secretHeader(header, value) || header == "headers" && secretInHeaders(value)) {
			p.secret(f, "", name, start, end, nil)
		}
	}
	if f.YAML != nil {
		configfile.Walk(f.YAML, func(above []string, key, value *yaml.Node) {
			start, end := f.Range(value)
			check(strings.Join(append(above[:len(above):len(above)], key.Value), "."), configfile.Text(value), start, end)
		})
		return
	}
	offset := 0
	for line := range strings.Lines(string(f.Source)) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			start := offset + len(name) + 1
			check(strings.TrimSpace(name), strings.TrimSpace(value), start, start+len(value))
		}
		offset += len(line)
	}
}

// secretInExporterHeaders reports the credentials in the headers of an SDK configuration, which are a list of names and
// values, or one string. It returns false for other nodes.
func (p *Pass) secretInExporterHeaders(f *configfile.File, above []string, key, value *yaml.Node) bool {
	path := strings.Join(append(above[:len(above):len(above)], key.Value), ".")
	switch {
	case key.Value == "headers_list":
		if secretInHeaders(configfile.Text(value)) {
			start, end := f.Range(value)
			p.secret(f, "", path, start, end, nil)
		}
		return true
	case key.Value == "headers" && value.Kind == yaml.SequenceNode:
		for _, header := range value.Content {
			name, content := configfile.Text(configfile.Get(header, "name")), configfile.Get(header, "value")
			if text := configfile.Text(content); !strings.Contains(text, "$") && secretHeader(name, text) {
				start, end := f.Range(content)
				p.secret(f, "", path+"."+name, start, end, nil)
			}
		}
		return true
	default: // the name or value of a header in the list
		return len(above) > 1 && above[len(above)-1] == "[]" && above[len(above)-2] == "headers"
	}
}

func (p *Pass) secret(f *configfile.File, service, name string, start, end int, fix []Edit) {
	p.in(f, start, end, Finding{
		Subject: strings.TrimSpace(service + " " + name), Fix: fix,
		Message: fmt.Sprintf("The value of `%s` is a credential that is written out.", name),
	})
}

// secretHeader reports whether a header has a literal credential.
func secretHeader(name, value string) bool {
	return sensitive.CredentialHeader(name) && secretValue(credential(value), 6) || knownCredential(value)
}

// exporterClass matches the classes of OTLP exporters in JavaScript and Python: OTLPTraceExporter.
var exporterClass = regexp.MustCompile(`^OTLP\w*Exporter$`)

// exporterHeaders yields the names and values of the headers that the code of a file gives to OTLP exporters.
func exporterHeaders(u *instrumentation.Uses) iter.Seq2[*syntax.Node, *syntax.Node] {
	if !u.File.ImportsAny("go.opentelemetry.io/otel/exporters/otlp", "@opentelemetry", "opentelemetry.exporter.otlp", "io.opentelemetry.exporter.otlp") {
		return func(func(*syntax.Node, *syntax.Node) bool) {}
	}
	return func(yield func(*syntax.Node, *syntax.Node) bool) {
		for n := range u.File.Root.All(syntax.Call, syntax.New) {
			var headers *syntax.Node
			switch recv, method := n.Method(); u.File.Language {
			case syntax.Go:
				if method == "WithHeaders" && recv != nil && recv.Kind == syntax.Name {
					if i, ok := u.File.Imported(recv.Text); ok && strings.HasPrefix(i.Path, "go.opentelemetry.io/otel/exporters/otlp/") {
						headers = n.Arg(0)
					}
				}
			case syntax.Java:
				if args := n.Args(); method == "addHeader" && len(args) == 2 && exporterBuilder(u, recv) && !yield(args[0], args[1]) {
					return
				}
			case syntax.Python:
				if exporterClass.MatchString(name(n)) {
					headers = n.Named("headers")
				}
			default:
				if exporterClass.MatchString(name(n)) {
					headers = resolved(u, n.Arg(0)).Get("headers")
				}
			}
			if headers = resolved(u, headers); headers == nil {
				continue
			}
			for _, h := range headers.Children {
				entry := h.Kind == syntax.Pair || headers.Kind == syntax.List && h.Kind == syntax.List
				if entry && len(h.Children) == 2 && !yield(h.Children[0], h.Children[1]) {
					return
				}
			}
		}
	}
}

// headerLists yields the lists of headers ("key=value,key=value") that the code of a file gives to OTLP exporters as one
// string or in the environment, and the names of their settings.
func headerLists(u *instrumentation.Uses) iter.Seq2[string, *syntax.Node] {
	return func(yield func(string, *syntax.Node) bool) {
		for n := range u.File.Root.All(syntax.Call, syntax.Assign) {
			var variable, list *syntax.Node
			switch {
			case n.Kind == syntax.Assign: // os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = "k=v"
				if t := n.Targets()[0]; t.Kind == syntax.Member {
					variable = t
				} else if t.Kind == syntax.Index && len(t.Children) == 2 {
					variable = t.Children[1]
				}
				list = n.Value()
			case u.File.Language == syntax.Python && exporterClass.MatchString(name(n)):
				if list = n.Named("headers"); list != nil && !yield("headers", list) {
					return
				}
				continue
			case len(n.Args()) == 2: // os.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "k=v")
				variable, list = n.Args()[0], n.Args()[1]
			}
			if variable != nil && list != nil && otlpHeaders.MatchString(variable.Text) && !yield(variable.Text, list) {
				return
			}
		}
	}
}

// otlpHeaders matches the variables and properties of the JVM for the headers of OTLP exporters.
var otlpHeaders = regexp.MustCompile(`^(OTEL_EXPORTER_OTLP_([A-Z]+_)?HEADERS|otel\.exporter\.otlp\.([a-z]+\.)?headers)$`)

// exporterBuilder reports whether an expression of Java is the builder of an OTLP exporter:
// OtlpGrpcSpanExporter.builder().
func exporterBuilder(u *instrumentation.Uses, n *syntax.Node) bool {
	for range 32 {
		switch {
		case n == nil:
			return false
		case n.Kind == syntax.Call:
			n, _ = n.Method()
		case (n.Kind == syntax.Name || n.Kind == syntax.Member) && strings.HasPrefix(n.Text, "Otlp"):
			return true
		default:
			n = u.File.Value(n)
		}
	}
	return false
}

// resolved returns the only value that a file assigns to a name, and n itself for other expressions.
func resolved(u *instrumentation.Uses, n *syntax.Node) *syntax.Node {
	if n != nil && n.Kind == syntax.Name {
		return u.File.Value(n)
	}
	return n
}

// secretInHeaders reports whether a list of headers ("key=value,key=value") has a literal credential.
func secretInHeaders(list string) bool {
	for pair := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(pair, "=")
		value = strings.NewReplacer("%20", " ", "%3D", "=").Replace(value)
		if sensitive.CredentialHeader(strings.TrimSpace(name)) && !strings.Contains(value, "$") && secretValue(credential(value), 6) {
			return true
		}
	}
	return false
}

// credential returns the credential in the value of an Authorization header: without the scheme, and the password alone
// for Basic.
func credential(value string) string {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(value), " ")
	if !ok {
		return value
	}
	switch strings.ToLower(scheme) {
	case "basic":
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
			if _, password, ok := strings.Cut(string(plain), ":"); ok {
				return password
			}
		}
		return rest
	case "bearer", "token", "apikey", "api-token", "api-key":
		return strings.TrimSpace(rest)
	}
	return value
}

var urlPassword = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@`)

// secretInURL reports whether a URL has a password.
func secretInURL(value string) bool {
	m := urlPassword.FindStringSubmatch(value)
	return m != nil && !strings.Contains(m[1], "$") && secretValue(m[1], 8)
}

// knownCredential reports whether a value has the format of a credential: a token of a known service, or a key.
func knownCredential(value string) bool {
	switch sensitive.Text([]byte(value)) {
	case sensitive.JWT, sensitive.AWSKey, sensitive.SecretKey, sensitive.GitHubToken, sensitive.GitLabToken, sensitive.SlackToken,
		sensitive.StripeKey, sensitive.GoogleKey, sensitive.PrivateKey:
		return !dummy.MatchString(value)
	}
	return false
}

// initialPassword matches variables with which the image of a database sets the password of the first user.
var initialPassword = regexp.MustCompile(`^(POSTGRES|POSTGRESQL|MYSQL|MARIADB|MSSQL|MONGO|MONGO_INITDB|OPENSEARCH_INITIAL|ELASTIC|MINIO|RABBITMQ|RABBITMQ_DEFAULT|CLICKHOUSE|KEYCLOAK|GF_SECURITY|REDIS|NEO4J|INFLUXDB|DOCKER_INFLUXDB_INIT|PGADMIN_DEFAULT)_.*PASS(WORD)?$|^MINIO_(ROOT|ACCESS|SECRET)`)

// localDatabase reports whether a variable of a Compose file holds the password of a database that the same file
// starts, outside production.
func localDatabase(f *configfile.File, v configfile.Variable) bool {
	if production.MatchString(f.Path) {
		return false
	}
	if initialPassword.MatchString(v.Name) {
		return true
	}
	m := urlHost.FindStringSubmatch(v.Value)
	return m != nil && slices.ContainsFunc(f.Services, func(s configfile.Service) bool { return s.Name == m[1] })
}

var urlHost = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^/\s]*@([^/:@\s]+)`)

var connectionPassword = regexp.MustCompile(`(?i)(?:^|;)\s*(?:password|pwd|accountkey|sharedaccesskey)=([^;]+)`)

// secretInConnection reports whether a connection string ("Host=db;Password=...") has a password.
func secretInConnection(value string) bool {
	m := connectionPassword.FindStringSubmatch(value)
	return m != nil && secretValue(m[1], 8)
}

// simplePassword matches passwords for development: a word and some digits.
var simplePassword = regexp.MustCompile(`^[A-Za-z]+[@_#!-]?\d{1,4}[@_#!-]?$`)

// dummy matches parts of placeholders for credentials, and of values for development.
var dummy = regexp.MustCompile(`(?i)change[_-]?(me|this|it)|example|placeholder|your|dummy|fake|sample|insert|replace|redact|todo|s[e3]cr[e3]t|passw|passphrase|admin|guest|default|localhost|xxx|1234567|abcdefg?$|^abc|foo|bar|qwerty|test|demo|local|dev|minio|postgres|mysql|mongo|rabbit|redis|<|>|\*\*\*|\.\.\.|insecure|not[_-]?a|some[_-]|my[_-]|token$|^token|key$|here$`)

// placeholder matches placeholders for credentials and values for development, of any length.
var placeholder = regexp.MustCompile(`(?i)(^|[-_.])(development|dev|testing|test|demo|example|sample|dummy|fake|placeholder|insecure|changeme)[-_.][a-z]+[-_.]`)

// secretValue reports whether the literal value of a variable or setting for a credential is one. It must have at least
// least bytes, and be as random as a generated password. Placeholders and passwords for development are not
// credentials.
func secretValue(value string, least int) bool {
	value = strings.TrimSpace(value)
	if len(value) < least || len(value) > 10_000 || strings.ContainsAny(value, " \t") && len(value) < 100 || placeholder.MatchString(value) {
		return false
	}
	short := len(value) < 40
	if plain, err := base64.StdEncoding.DecodeString(value); err == nil && short && dummy.Match(plain) && printable(plain) {
		return false // base64 in a Kubernetes Secret, such as that of example-app-secret
	}
	if short && dummy.MatchString(value) || simplePassword.MatchString(value) || connectionPassword.MatchString(value) || strings.HasPrefix(value, "/") || strings.HasPrefix(value, "arn:") || strings.Contains(value, "://") {
		return false
	}
	var digits, letters int
	counts := map[byte]int{}
	for i := range len(value) {
		counts[value[i]]++
		switch c := value[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			letters++
		}
	}
	entropy := 0.0
	for _, n := range counts {
		p := float64(n) / float64(len(value))
		entropy -= p * math.Log2(p)
	}
	mixed := digits > 0 && letters > 0 || letters >= 16 && strings.ToLower(value) != value && strings.ToUpper(value) != value
	return mixed && entropy >= 2.5
}

// mixedCase reports whether a value has digits and letters of both cases, as a generated password.
func mixedCase(value string) bool {
	return strings.ContainsAny(value, "0123456789") && strings.ToLower(value) != value && strings.ToUpper(value) != value
}

// printable reports whether a value consists of printable ASCII characters.
func printable(value []byte) bool {
	return !slices.ContainsFunc(value, func(c byte) bool { return c < ' ' || c > '~' })
}
