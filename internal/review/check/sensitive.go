// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
	"assay/internal/rules/sensitive"
)

// sensitiveNames maps the last words of names of variables, fields and keys, without separators, to kinds of sensitive
// data.
var sensitiveNames = func() map[string]string {
	m := map[string]string{}
	for what, names := range map[string]string{
		"an e-mail address":     "email emailaddress emailaddr mailaddress useremail customeremail",
		"a phone number":        "phone phonenumber mobilenumber telephone telephonenumber msisdn cellphone",
		"a person's name":       "firstname lastname surname givenname familyname maidenname userfullname customerfullname personfullname patientfullname contactfullname profilefullname memberfullname employeefullname",
		"a postal address":      "streetaddress homeaddress postaladdress billingaddress shippingaddress mailingaddress",
		"a date of birth":       "dateofbirth birthdate birthday dob",
		"a password":            "password passwd pwd passphrase",
		"a secret":              "secret clientsecret secretkey sharedsecret signingsecret webhooksecret",
		"a token":               "token authtoken accesstoken refreshtoken idtoken bearertoken jwt bearer",
		"a key":                 "apikey privatekey secretaccesskey signingkey encryptionkey",
		"credentials":           "credential credentials authorization authorizationheader authheader",
		"a cookie":              "cookie cookies setcookie",
		"a payment card number": "cardnumber creditcard creditcardnumber ccnumber cardnum debitcard cardpan",
		"a card security code":  "cvv cvc cvv2 cardcvv securitycode",
		"a bank account number": "iban bankaccount bankaccountnumber routingnumber accountnumber",
		"an identity number":    "ssn socialsecuritynumber socialsecurity nationalid passportnumber taxpayerid driverslicense",
		"a health record":       "diagnosis patientid patientname insuranceid medicalrecord medicalrecordnumber mrn healthrecord",
	} {
		for n := range strings.FieldsSeq(names) {
			m[n] = what
		}
	}
	return m
}()

var (
	// hidingWords before a sensitive word mark derived values: has_email, hashed_password, num_tokens.
	hidingWords = setOf(`has is was with without no not needs need requires require required should can allow allows enable enabled
		disable disabled use uses missing valid invalid validate verify verified verifies check send sends sent reset change changed
		forgot update updated confirm confirmed hash hashed masked mask redacted redact encrypted encrypt obfuscated anonymized sanitized
		sanitize scrubbed hidden fake dummy num count len length size max min total template templates event sha256 md5 digest last4
		fingerprint pseudo pseudonymized attr column skip rotate create generate delete revoke new parse expired`)
	// tokenWords before "token" mark tokens that give no access.
	tokenWords = setOf(`page next prev previous continuation continue resume sync cursor cancellation cancel cancelation csrf xsrf xcsrf lex lexer
		parser parse syntax stop start end prompt completion input output unk eos bos pad mask current curr cur first last unexpected
		expected design style theme special fencing lease leader ack watch checkpoint shard barrier generation pagination idempotency
		request client_request task d string word text left right close open separator delimiter literal keyword comment peek look ahead lookahead
		ring partition change skip marker reservation limiter slot consistency delivery zed zedtoken scan scroll watermark feature balance balancer lb precommit since
		to from batch stream transaction coap`)
	// accountWords before "email" mark accounts of programs.
	accountWords = setOf("client service serviceaccount bot support noreply")
	// derived are last words in names of values and functions that do not show the data that they are derived from.
	derived = setOf(`len length size count hash hashed hashcode sha sha1 sha256 sha512 md5 hmac digest checksum fingerprint mask masked redact
		redacted obfuscate obfuscated sanitize sanitized anonymize anonymized scrub encrypt encrypted hide censor pseudonymize bool boolean
		exists empty present contains type kind name id ids status enabled verified valid typeof kobj kref kobjs ref sizeof bcrypt
		domain expiry expires ttl expiration policy version index state provider has is nonempty set equals match source method format
		template level class category prefix suffix path file filename filepath dir location scope scopes arn url uri endpoint`)
	// keepers are functions and methods whose result shows their argument or receiver.
	keepers = setOf(`str string tostring valueof sprint sprintf sprintln format repr stringify dumps tolower toupper trimspace
		tolowercase touppercase itoa formatint formatuint nvl coalesce formatted deref pointer ptr stringvalue strvalue ofnullable fstring bytes byteslice any some`)
	// showers are methods and fields whose value shows their receiver.
	showers = setOf(`string tostring value get orelse text unwrap strip trim lower upper tolowercase touppercase getvalue expose_secret
		stringvalue trimspace decode plaintext reveal`)
	// accessors are functions that return the value of a name.
	accessors = setOf(`get getenv lookupenv getheader header formvalue postformvalue query param params getparameter getattribute
		getproperty getstring postform values cookie form environ getheaderstring queryparam pathvalue getor field getfirst peek claim getclaim`)
	// parsing are words in names of functions whose tokens are part of a language or a text.
	parsing = setOf(`lexer lex lexers parser parsers parse parsing token tokens tokenizer tokenize tokenise tokenization scanner scan ast syntax grammar compiler
		compile interpreter eval llm completion completions embedding embeddings expr expression template templates markdown html sql css json yaml xml
		query logql promql traceql cql ring limiter semaphore`)
	// parsingPaths are words in paths of files with such tokens. It lacks words of parsing that also occur in paths of
	// files for credentials, such as token, query, json and sql.
	parsingPaths = setOf(`lexer lex lexers parser parsers parsing tokenizer tokenize tokenise tokenization scanner ast syntax grammar compiler
		interpreter eval llm completion completions embedding embeddings expr expression markdown css logql promql traceql cql ring limiter semaphore`)
)

// hidden reports whether the words before a sensitive word mark a derived value. A token for a reset and a new password
// are secrets nevertheless.
func hidden(before []string, what string) bool {
	return slices.ContainsFunc(before, func(w string) bool {
		if w == "new" || what == "a token" && actions[w] || what == "a password" && w == "confirm" {
			return false
		}
		return hidingWords[w]
	})
}

// actions are words before "token" for actions that the token permits.
var actions = setOf("reset change verify confirm update create generate invite delete")

// tokenPaths are words in paths of files whose tokens are part of a design or of a limit, or protect a form.
var tokenPaths = setOf("design theme themes styles limit limits ratelimit csrf xsrf")

// sensitiveWords returns the kind of sensitive data in a value with a name of these words, "" for none.
func sensitiveWords(w []string) string {
	for k := min(3, len(w)); k > 0; k-- {
		what, ok := sensitiveNames[strings.Join(w[len(w)-k:], "")]
		if !ok {
			continue
		}
		before := w[:len(w)-k]
		if hidden(before, what) || k == 1 && last(w) == "token" && tokenWords.any(before) || what == "an e-mail address" && accountWords.any(before) {
			return ""
		}
		return what
	}
	return ""
}

// personalKeys are the keys of the registry whose values are personal data by definition.
var personalKeys = map[string]string{"user.email": "an e-mail address", "user.full_name": "a person's name"}

// sensitiveKey returns the kind of sensitive data in an attribute or a field of a log record by its key, "" for none.
func sensitiveKey(key string) string {
	if what, ok := personalKeys[key]; ok {
		return what
	}
	if _, ok := semconv.Lookup([]byte(key)); ok {
		return ""
	}
	if _, rest, ok := semconv.LookupTemplate([]byte(key)); ok {
		key = string(rest)
	}
	w := words(key)
	if what := sensitiveWords(w); what != "" {
		return what
	}
	// The rules for telemetry contain more names, such as session_id. Words for derived values apply to them as well.
	if sensitive.Named([]byte(key), []byte("q7Zk-example-value")) == sensitive.NamedSecret && !hidingWords.any(w[:max(len(w)-1, 0)]) &&
		!strings.HasSuffix(last(w), "token") {
		return "a secret"
	}
	return ""
}

// hides reports whether an expression does not show the values of the names in it: a comparison, a length, a hash, a
// flag.
func hides(u *instrumentation.Uses, n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Bool, syntax.Number, syntax.Null, syntax.Func:
		return true
	case syntax.Operator:
		return !slices.Contains([]string{"||", "??", "or", "+", "%"}, n.Text)
	case syntax.Conditional:
		return len(n.Children) == 3 && constant(u, n.Children[1]) && constant(u, n.Children[2])
	case syntax.Index:
		return len(n.Children) > 2 || hides(u, n.Children[0]) // a slice shows only a part
	case syntax.Call:
		w := words(name(n))
		read := w // getFirstName()
		if len(w) > 1 && w[0] == "get" {
			read = w[1:]
		}
		if keeps(n) {
			return argumentsHide(u, n)
		}
		if derived[last(w)] && sensitiveNames[strings.Join(read, "")] == "" || len(w) > 0 && (derived[w[0]] || hidingWords[w[0]] && w[0] != "new") {
			return true
		}
	case syntax.Name, syntax.Member:
		if nameList(n) {
			return true
		}
		w := words(n.Text)
		if derived[last(w)] && sensitiveNames[strings.Join(w, "")] == "" || hidden(w[:max(len(w)-1, 0)], sensitiveNames[last(w)]) {
			return true
		}
		if def := u.File.Definition(n); def != nil {
			if plainType(def.Type) {
				return true
			}
			if v := def.Value(); v != nil && def.Kind == syntax.Assign && len(def.Targets()) == 1 && v.Kind != syntax.Name && v.Kind != syntax.Member {
				return hidesOnce(u, v)
			}
		}
	}
	return false
}

// argumentsHide reports whether a call that keeps its arguments shows none of their values: all arguments hide them or
// are constants, and at least one hides them. It also reports whether the second argument replaces values:
// JSON.stringify(user, redact).
func argumentsHide(u *instrumentation.Uses, call *syntax.Node) bool {
	args := call.Args()
	if m := name(call); (m == "stringify" || m == "dumps") && len(args) > 1 && !constant(u, args[1]) {
		return hides(u, args[1])
	}
	some := false
	for _, a := range args[:min(len(args), maxExposing)] {
		if hides(u, a) {
			some = true
		} else if !constant(u, a) {
			return false
		}
	}
	return some
}

// hidesOnce is hides for the definition of a variable. It follows no names, because the definition may use the variable
// itself: email = mask(email).
func hidesOnce(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind == syntax.Call {
		w := words(name(n))
		return derived[last(w)] || len(w) > 0 && derived[w[0]]
	}
	return n.Kind == syntax.Bool || n.Kind == syntax.Number || n.Kind == syntax.Operator && hides(u, n) || abbreviates(u, n, maxConcatenation)
}

// maxConcatenation limits the nested operators of a concatenation.
const maxConcatenation = 8

// abbreviates reports whether a concatenation consists of constants and parts of values: token[:4] + "...".
func abbreviates(u *instrumentation.Uses, n *syntax.Node, depth int) bool {
	if depth == 0 || n.Kind != syntax.Template && (n.Kind != syntax.Operator || n.Text != "+") {
		return false
	}
	return !slices.ContainsFunc(n.Children, func(c *syntax.Node) bool {
		part := c.Kind == syntax.Index && strings.Contains(u.File.Code(c), ":") || c.Kind == syntax.Call && setOf("slice substring substr")[name(c)]
		return !part && !constant(u, c) && !abbreviates(u, c, depth-1)
	})
}

// plainType reports whether values of a declared type are flags, counts, or secrets that print as masked.
func plainType(t string) bool {
	t = strings.TrimSuffix(strings.ToLower(strings.TrimLeft(t, "*&: ")), " | none")
	switch t {
	case "bool", "boolean", "int", "int32", "int64", "uint", "uint32", "uint64", "long", "integer", "float", "float64", "double", "number", "error",
		"time.duration", "time.time", "context.cancelfunc":
		return true
	}
	return strings.Contains(t, "secret") || strings.Contains(t, "redacted") || strings.Contains(t, "opaque") || strings.HasPrefix(t, "func") ||
		strings.Contains(t, "pos") && strings.HasPrefix(t, "token")
}

// constant reports whether an expression has a known value.
func constant(u *instrumentation.Uses, n *syntax.Node) bool {
	switch n.Kind {
	case syntax.String, syntax.Number, syntax.Bool, syntax.Null:
		return true
	case syntax.Operator:
		return !slices.ContainsFunc(n.Children, func(c *syntax.Node) bool { return !constant(u, c) })
	}
	_, ok := u.Known(n)
	return ok
}

// keeps reports whether a call returns a text that shows its arguments or its receiver.
func keeps(n *syntax.Node) bool { return keepers[strings.ToLower(name(n))] }

// exposes returns the kind of sensitive data that an expression shows, "" for none. It decides by names, and follows
// calls that keep the value and definitions of variables.
func exposes(u *instrumentation.Uses, n *syntax.Node) string { return exposesIn(u, n, 6) }

// maxExposing limits the parts of an expression that are checked.
const maxExposing = 16

// firstExposed returns the kind of sensitive data in the first expression that exposes any.
func firstExposed(u *instrumentation.Uses, nodes []*syntax.Node, depth int) string {
	for _, n := range nodes[:min(len(nodes), maxExposing)] {
		if what := exposesIn(u, n, depth); what != "" {
			return what
		}
	}
	return ""
}

func exposesIn(u *instrumentation.Uses, n *syntax.Node, depth int) string {
	if depth == 0 || n == nil || n.Kind != syntax.Template && hides(u, n) {
		return ""
	}
	switch n.Kind {
	case syntax.Name, syntax.Member:
		return exposesName(u, n, depth)
	case syntax.Index:
		if len(n.Children) != 2 {
			return ""
		}
		of := n.Children[0]
		if n.Children[1].Kind == syntax.Number { // r.Header["Authorization"][0], which has several values
			if of.Kind == syntax.Index && headerMaps.any(words(name(of.Children[0]))) || of.Kind == syntax.Call && of.Arg(0) != nil && firstOf[strings.ToLower(name(of))] {
				return exposesIn(u, of, depth-1)
			}
			return ""
		}
		return sensitiveWords(readWords(u, n.Children[1], name(of)))
	case syntax.Call:
		return exposesCall(u, n, depth)
	case syntax.Template, syntax.Operator, syntax.List:
		return firstExposed(u, n.Children, depth-1)
	case syntax.Object: // JSON.stringify({password: p})
		for _, c := range n.Children[:min(len(n.Children), maxExposing)] {
			if c.Kind != syntax.Pair {
				continue
			}
			if key, ok := u.Known(c.Children[0]); ok && !constant(u, c.Value()) && !hides(u, c.Value()) && sensitiveKey(key) != "" {
				return sensitiveKey(key)
			}
			if what := exposesIn(u, c.Value(), depth-1); what != "" {
				return what
			}
		}
	case syntax.Conditional:
		if len(n.Children) == 3 {
			return firstExposed(u, n.Children[1:], depth-1)
		}
	case syntax.Await, syntax.Spread, syntax.Argument:
		return firstExposed(u, n.Children, depth-1)
	}
	return ""
}

func exposesName(u *instrumentation.Uses, n *syntax.Node, depth int) string {
	w := words(n.Text)
	if isError(n) {
		return ""
	}
	if n.Kind == syntax.Member {
		if i, ok := u.File.Imported(name(n.Children[0])); (!ok || ofRequest[i.Member]) && n.Children[0].Kind != syntax.Call {
			w = append(words(name(n.Children[0])), w...) // card.number
			if what := sensitiveWords(words(n.Text)); what == "" && len(w) > 4 {
				w = w[len(w)-4:]
			}
		} else if ok {
			return "" // a constant or variable of a package
		}
	}
	if what := sensitiveWords(w); what != "" {
		if last(w) == "token" && languageToken(u, n) || secretObject(u, w) || nameList(n) {
			return ""
		}
		if setting := n.Kind == syntax.Member && strings.Contains(n.Text, "_") && n.Text == strings.ToUpper(n.Text); setting && what == "an e-mail address" {
			return "" // a setting of the operator: env.SUPPORT_EMAIL
		}
		if n.Kind == syntax.Name && slices.Equal(w, []string{"family", "name"}) || n.Kind == syntax.Member && n.Text == "key" && name(n.Children[0]) == "secret" {
			return "" // the name of a family of metrics, for example, or of a secret
		}
		if s, ok := u.Known(n); ok && sensitive.Text([]byte(s)) == sensitive.None {
			return "" // a constant, such as the name of a header
		}
		return what
	}
	if n.Kind == syntax.Member {
		if jar := n.Children[0]; (jar.Kind == syntax.Member && (jar.Text == "cookies" || jar.Text == "signedCookies")) && request(u, jar.Children[0]) && sessionCookies.any(words(n.Text)) {
			return "a cookie"
		}
		if showers[strings.ToLower(n.Text)] {
			return exposesIn(u, n.Children[0], depth-1)
		}
		return ""
	}
	def := u.File.Definition(n)
	if def != nil && def.Kind == syntax.Assign && len(def.Targets()) == 3 && name(def.Value()) == "BasicAuth" && def.Targets()[1].Text == n.Text {
		return "a password"
	}
	if def == nil || def.Kind != syntax.Assign || len(def.Targets()) != 1 || n.Within(def) || def.Parent != nil && def.Parent.Kind == syntax.Loop {
		return ""
	}
	if v := def.Value(); v.Kind != syntax.Operator {
		return exposesIn(u, v, depth-1)
	}
	return ""
}

func exposesCall(u *instrumentation.Uses, n *syntax.Node, depth int) string {
	recv, method := n.Method()
	args := n.Args()
	w := words(method)
	if len(w) > 1 && w[0] == "get" {
		w = w[1:]
	}
	switch {
	case len(args) <= 1 && sensitiveWords(w) != "" && (len(args) == 0 || !constant(u, args[0])):
		if len(args) == 0 || words(method)[0] == "get" {
			if last(w) == "token" && languageToken(u, n) {
				return ""
			}
			return sensitiveWords(w)
		}
	case len(args) > 0 && accessors[strings.ToLower(method)]:
		if w := readWords(u, args[0], method); w != nil {
			return sensitiveWords(w)
		}
	}
	if keeps(n) {
		if what := firstExposed(u, args, depth-1); what != "" {
			return what
		}
	}
	if recv != nil && showers[strings.ToLower(method)] && (len(args) == 0 || len(args) == 1 && strings.EqualFold(method, "orElse")) {
		if recv.Kind == syntax.Name {
			if _, ok := u.File.Imported(recv.Text); ok {
				return ""
			}
		}
		return exposesIn(u, recv, depth-1)
	}
	return ""
}

// ofRequest are objects of Flask that hold data of the current request.
var ofRequest = setOf("g session current_user")

var (
	headerWord = setOf("header headers")
	// headerMaps are words in names of maps whose values are lists.
	headerMaps = setOf("header headers md metadata")
	// firstOf are methods that return the list of values of a header.
	firstOf = setOf("values get getall")
)

// readWords returns the words of the key that an accessor or index reads. If the value of the key is unknown, it
// returns the words of a constant for the name of a header, such as HttpHeaders.AUTHORIZATION, and nil for other keys.
func readWords(u *instrumentation.Uses, key *syntax.Node, reader string) []string {
	if s, ok := u.Known(key); ok {
		return words(s)
	}
	w := words(key.Text)
	switch {
	case key.Kind == syntax.Member && (headerWord.any(w) || headerWord.any(words(name(key.Children[0]))) || headerWord.any(words(reader)) && packageValue(u, key)):
	case key.Kind == syntax.Name && headerWord.any(words(reader)) && packageValue(u, key):
	default:
		return nil
	}
	return slices.DeleteFunc(w, func(w string) bool { return headerWord[w] })
}

// sessionCookies are words in names of cookies that give access.
var sessionCookies = setOf("session sess sessionid sid token auth jwt remember")

// nameLists are last words in names of objects that hold names of settings, headers and fields.
var nameLists = setOf("names constants consts")

// keyOwners are words before "keys" in the names of objects that hold names.
var keyOwners = setOf("env environment header headers config field attr attribute attributes metadata query storage cookie var param")

// nameList reports whether an expression is a member of an object that holds names, such as envKeys.ApiKey: the name of
// a setting and not its value.
func nameList(n *syntax.Node) bool {
	if n.Kind != syntax.Member {
		return false
	}
	w := words(name(n.Children[0]))
	return nameLists[last(w)] || len(w) > 1 && last(w) == "keys" && keyOwners[w[len(w)-2]]
}

// secretObject reports whether the words of a name stand for a Secret object of Kubernetes, or for a key in it, and not
// for a secret value.
func secretObject(u *instrumentation.Uses, w []string) bool {
	return (last(w) == "secret" || strings.HasSuffix(strings.Join(w, " "), "secret key")) && kubernetes(u)
}

// noSecret reports whether a key and its value stand for a Secret object of Kubernetes, or for a token that gives no
// access.
func noSecret(u *instrumentation.Uses, key string, value *syntax.Node) bool {
	w := words(key)
	return secretObject(u, w) || last(w) == "token" && (languageToken(u, value) || unrelatedToken(value))
}

// kubernetes reports whether a file is about Kubernetes, where a secret is an object with a name.
func kubernetes(u *instrumentation.Uses) bool {
	return u.File.ImportsAny("k8s.io", "sigs.k8s.io", "@kubernetes/client-node", "kubernetes", "io.kubernetes", "io.fabric8.kubernetes", "knative.dev", "istio.io") ||
		setOf("kubernetes k8s kube crd operator vault").any(words(u.File.Path))
}

// languageToken reports whether the token in a variable is not a credential: it is part of a language, a text or the
// output of a model, for example.
func languageToken(u *instrumentation.Uses, n *syntax.Node) bool {
	path := words(u.File.Path)
	if parsingPaths.any(path) || tokenPaths.any(path) || parsingPaths.any(words(u.File.Package)) || newPosition(n) {
		return true
	}
	for f := n.Enclosing(syntax.Func, syntax.Class); f != nil; f = f.Enclosing(syntax.Func, syntax.Class) {
		if w := words(f.Text); parsing.any(w) && !slices.Contains(w, "token") {
			return true
		}
	}
	def := u.File.Definition(n)
	if def == nil {
		return false
	}
	if slices.Contains(path, "coap") && messageToken(n, def) {
		return true
	}
	if strings.Contains(strings.ToLower(def.Type), "token") || def.Parent != nil && def.Parent.Kind == syntax.Loop {
		return true // a structure, or an element of a list
	}
	if v := def.Value(); v != nil && v.Kind == syntax.Call {
		return setOf("next scan peek deserialize").any(words(name(v)))
	}
	return false
}

// newPosition reports whether newToken is a position in a stream: the call gets the previous or current token as well.
func newPosition(n *syntax.Node) bool {
	if n.Parent == nil || n.Parent.Kind != syntax.Call || strings.Join(words(n.Text), " ") != "new token" {
		return false
	}
	return slices.ContainsFunc(n.Parent.Args(), func(a *syntax.Node) bool {
		w := words(name(a))
		return len(w) == 2 && w[1] == "token" && setOf("prev previous current curr")[w[0]]
	})
}

// messageToken reports whether a variable holds the token of a CoAP message, which matches responses to requests. The
// result of a function for another token, such as getCloudToken(), is not one.
func messageToken(n, def *syntax.Node) bool {
	if def.Kind == syntax.Param {
		return strings.EqualFold(n.Text, "token")
	}
	v := def.Value()
	return v != nil && v.Kind == syntax.Call && sensitiveWords(words(name(v))) == ""
}
