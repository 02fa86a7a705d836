// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"slices"
)

// email checks whether an e-mail address contains the '@' at i, of width bytes (3 for
// %40).
func email(s []byte, i, width int) finding {
	if i == 0 || !is(s[i-1], local) {
		// The character before may be percent-encoded: first%2Blast%40...
		if !encodedLocal(s, i-3) {
			return finding{}
		}
	}
	d := i + width
	if d >= len(s) || !is(s[d], alnum|high) {
		return finding{}
	}
	end := d
	dot := 0 // after the last dot in s[d:end]
	for end < len(s) && is(s[end], host) {
		if s[end] == '.' && end+1 < len(s) && is(s[end+1], alnum|high) {
			dot = end + 1
		}
		end++
	}
	if dot == 0 {
		return finding{}
	}
	for s[end-1] == '.' || s[end-1] == '-' {
		end--
	}
	if end-d > maxDomain || !isTopLevel(s[d:dot-1], topLevel(s[dot:end])) {
		return finding{}
	}
	start := localStart(s, i)
	if start == i || !isLocal(s, start, i) {
		return finding{}
	}
	if end < len(s) && s[end] == ':' && isRemotePath(s, s[start:i], end+1) {
		return finding{}
	}
	if isMachine(s[start:i], s[d:end], afterService(s, start)) || valueOf(s, start, messageIDs[:]) {
		return finding{}
	}
	return finding{Email, start, end}
}

// isMachine reports whether the address is not that of a person: the name of an SSH
// algorithm (RFC 4251, section 6: chacha20-poly1305@openssh.com), an annotation of OData
// (Members@odata.count), the Kerberos principal of a service (hdfs@EXAMPLE.COM,
// HTTP/www.example.com@EXAMPLE.COM), a unique id, or one with a masked domain.
func isMachine(user, domain []byte, afterService bool) bool {
	switch string(domain) {
	case "openssh.com", "libssh.org", "lysator.liu.se", "ssh.com":
		if bytes.IndexByte(user, '-') >= 0 {
			return true
		}
	}
	label := domain[:bytes.IndexByte(domain, '.')]
	if len(label) >= 3 && onlyX(label) || string(label) == "odata" || string(label) == "Redfish" {
		return true
	}
	var userLetters, domainLetters uint16
	hex := 0 // hexadecimal digits and hyphens in a row
	for _, c := range user {
		userLetters |= chars[c] & (letter | high)
		if hex++; !isHex(c) && c != '-' {
			hex = 0
		}
		if hex == len("0123456789abcdef0123456789abcdef") {
			return true
		}
	}
	for _, c := range domain {
		domainLetters |= chars[c] & (letter | high)
	}
	return userLetters == lower && domainLetters == upper && (afterService || servicePrincipals[string(user)])
}

// servicePrincipals are the names of services that are Kerberos principals without an
// instance. Other names belong to people.
var servicePrincipals = map[string]bool{
	"hbase": true, "hdfs": true, "hive": true, "impala": true, "kafka": true, "krbtgt": true, "mapred": true, "spark": true, "yarn": true,
	"zkcli": true, "zookeeper": true,
}

// afterService reports whether the name of a service and a slash precede start, as in
// HTTP/www.example.com@EXAMPLE.COM, but not as in the path /users/bob@EXAMPLE.COM.
func afterService(s []byte, start int) bool {
	if start < 2 || s[start-1] != '/' {
		return false
	}
	name := start - 1
	for name > 0 && start-name < maxWord && tokenByte(s[name-1]) {
		name--
	}
	return name < start-1 && (name == 0 || s[name-1] != '/')
}

// maxDomain is the maximum length of a domain name in bytes.
const maxDomain = 253

// encodedLocal reports whether there is a percent-encoded character of the local part
// at i.
func encodedLocal(s []byte, i int) bool {
	switch percent(s, i) {
	case '+', '-', '_', '.':
		return true
	}
	return false
}

// localStart returns the start of the local part that ends at i.
func localStart(s []byte, i int) int {
	start := i
	for start > 0 {
		switch {
		case start >= 3 && s[start-3] == '%' && percent(s, start-3) != 0:
			if !encodedLocal(s, start-3) {
				return trimDots(s, start, i)
			}
			start -= 3
		case afterEscape(s, start):
			return trimDots(s, start, i)
		case is(s[start-1], local):
			start--
		default:
			return trimDots(s, start, i)
		}
	}
	return trimDots(s, start, i)
}

func trimDots(s []byte, start, end int) int {
	for start < end && s[start] == '.' {
		start++
	}
	return start
}

// isLocal reports whether s[start:end] may be the local part of a person's address: it
// has a letter or digit and is neither masked (xxx, j***n) nor a placeholder (%s, $user).
func isLocal(s []byte, start, end int) bool {
	v := s[start:end]
	if start > 0 && (s[start-1] == '$' || s[start-1] == '*' || s[start-1] == '%' && len(v) == 1) {
		return false
	}
	if len(v) >= 3 && onlyX(v) || len(v) == len("redacted") && hasPrefixFold(v, 0, "redacted") {
		return false
	}
	for _, c := range v {
		if is(c, alnum|high) {
			return true
		}
	}
	return false
}

// topLevel removes text after an ASCII top level domain: some scripts need no space
// before other text.
func topLevel(v []byte) []byte {
	if ascii := run(v, 0, letter, len(v)); ascii > 0 && ascii < len(v) && is(v[ascii], high) {
		return v[:ascii]
	}
	return v
}

// isTopLevel reports whether last can be the top level domain of the domain
// rest.last, which it is not when it is the extension of a file name or a label of
// private networks, and when the rest is a version.
func isTopLevel(rest, last []byte) bool {
	if len(last) < 2 || run(last, 0, letter|high, len(last)) != len(last) {
		return false
	}
	// Two numbers are a version: pkg@1.2.beta.
	first := run(rest, 0, digit, len(rest))
	if rest[0] == 'v' {
		first = run(rest, 1, digit, len(rest))
	}
	if first > 0 && first < len(rest) && rest[first] == '.' && run(rest, first+1, digit, len(rest)) > first+1 {
		return false
	}
	if len(last) > maxExtension {
		return true
	}
	var low [maxExtension]byte
	for i, c := range last {
		low[i] = toLower(c)
	}
	switch extensions[string(low[:len(last)])] {
	case always:
		return false
	case afterOneLabel:
		return bytes.IndexByte(rest, '.') >= 0
	case afterDigit:
		return !is(rest[0], digit)
	}
	return true
}

// maxExtension is the length of the longest of the extensions.
const maxExtension = 11

// When an extension that is also a top level domain is an extension.
const (
	always        = iota + 1
	afterOneLabel // icon@home.py, but not bob@mail.example.py
	afterDigit    // icon@2x.md, but not bob@example.md
)

// extensions of file names, of systemd units (user@1000.service), and the top labels of
// private networks.
var extensions = func() map[string]int {
	m := make(map[string]int)
	for when, list := range map[int][]string{
		always: {
			"png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "ico", "bmp", "tif", "tiff", "heic", "psd",
			"js", "jsx", "mjs", "cjs", "ts", "tsx", "css", "scss", "sass", "less", "html", "htm", "xhtml", "vue", "map", "wasm",
			"json", "jsonl", "xml", "yaml", "yml", "toml", "ini", "conf", "cfg", "csv", "tsv", "txt", "log", "lock", "properties", "env",
			"go", "java", "class", "jar", "war", "kt", "py", "pyc", "rb", "php", "cpp", "hpp", "cs", "swift", "scala", "lua", "ex", "exs", "erl", "hs", "sql", "proto",
			"exe", "dll", "bin", "dat", "db", "sqlite", "bak", "tmp", "pid", "sock", "crt", "key", "csr", "pem", "cer",
			"zip", "tar", "gz", "tgz", "bz", "xz", "zst", "rar", "deb", "rpm", "apk", "whl", "gem", "iso", "img",
			"pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "rtf", "odt",
			"asp", "aspx", "jsp", "cgi", "bat", "cmd", "vbs", "dart", "groovy", "gradle", "kts", "svelte", "graphql", "gql", "tmpl", "tpl", "hbs", "ejs", "erb",
			"xsd", "xsl", "xslt", "plist", "ipynb", "parquet", "avro", "patch", "diff", "orig", "swp", "dmg", "msi", "pkg", "ods", "odp", "epub",
			"mov", "avi", "mkv", "mpg", "mpeg", "wav", "ogg", "flac", "webm", "flv", "wmv", "swf", "aac", "wma", "opus", "aiff",
			"apng", "heif", "jfif", "jxl", "eps", "ttf", "otf", "woff", "eot",
			"internal", "local", "localdomain", "lan", "intranet", "corp",
			"service", "socket", "timer", "mount", "automount", "slice", "scope", "target", "device", "swap",
		},
		afterOneLabel: {"sh"},
		afterDigit:    {"md", "rs", "pl", "so", "cc", "ps", "tf", "ai"},
	} {
		for _, e := range list {
			m[e] = when
		}
	}
	// Python's extension is Paraguay's top level domain, where names have a
	// second level (com.py).
	m["py"] = afterOneLabel
	return m
}()

// isRemotePath reports whether the text after user@host: at i is a path on that host. For
// the user git it always is; for others it must contain a slash.
func isRemotePath(s, user []byte, i int) bool {
	if string(user) == "git" {
		return true
	}
	for n := 0; i < len(s) && n < 64; i, n = i+1, n+1 {
		switch c := s[i]; {
		case c == '/' || c == '~' && n == 0:
			return true
		case !is(c, alnum) && c != '.' && c != '_' && c != '-':
			return false
		}
	}
	return false
}

// authority searches the authority of a URL at i for a password.
func (c *scanner) authority(i int) finding {
	s := c.s
	at, end := -1, i
loop:
	for ; end < len(s); end++ {
		switch s[end] {
		case '@':
			at = end
		case '/', '?', '#', '"', '\'', '<', '>', '`', '\\', ' ', '\t', '\n', '\r':
			break loop
		}
	}
	if at < 0 || isDigest(s, at+1) { // an image with tag and digest
		return finding{}
	}
	colon, parts := i, false
	for colon < at && s[colon] != ':' {
		parts = parts || s[colon] == '&' || s[colon] == ',' || s[colon] == ';' || s[colon] == '|'
		colon++
	}
	if parts && colon == at { // an address after the URL: http://example.com&mail=bob@example.org
		return finding{}
	}
	c.userinfo = at
	if colon >= at-1 || c.exempt(unnamed, colon+1, at) {
		return finding{}
	}
	return finding{URLPassword, colon + 1, at}
}

// isDigest reports whether the digest of a container image is at i, and not a host of that name with a port.
func isDigest(s []byte, i int) bool {
	const longestPort = len("65535")
	hash := i + len("sha256:")
	if !has(s, i, "sha256:") && !has(s, i, "sha512:") || len(s)-hash <= longestPort {
		return false
	}
	return !slices.ContainsFunc(s[hash:hash+longestPort+1], func(b byte) bool { return !isHex(b) })
}

// encodedAuthority is authority for a percent-encoded URL:
// https%3A%2F%2Fuser%3Apassword%40host.
func encodedAuthority(s []byte, i int) finding {
	colon := 0
	for ; i < len(s) && !is(s[i], stop); i++ {
		switch percent(s, i) {
		case ':':
			if colon == 0 {
				colon = i
			}
		case '/', '?', '#', ' ', '"':
			return finding{}
		case '@':
			if colon == 0 || i == colon+3 || findMask(s, colon+3, i) < i || placeholder(s[colon+3:i]) {
				return finding{}
			}
			return finding{URLPassword, colon + 3, i}
		}
	}
	return finding{}
}

// dsnPassword looks at the '@' at i for the password of a Go MySQL data source
// name: user:password@tcp(host:3306)/database.
func (c *scanner) dsnPassword(i int) finding {
	s := c.s
	if !has(s, i+1, "tcp(") && !has(s, i+1, "unix(") {
		return finding{}
	}
	// The nearest colon before dsnAt, if any, is known from an earlier call.
	colon := i - 1
	for colon > c.dsnAt && s[colon] != ':' && !is(s[colon], stop) {
		colon--
	}
	if colon <= c.dsnAt {
		colon = c.dsnColon
	}
	c.dsnAt, c.dsnColon = i, 0
	if colon <= 0 || colon <= i-128 || s[colon] != ':' {
		return finding{}
	}
	c.dsnColon = colon
	if !is(s[colon-1], alnum) || placeholder(s[colon+1:i]) || findMask(s, colon+1, i) < i {
		return finding{}
	}
	return finding{URLPassword, colon + 1, i}
}
