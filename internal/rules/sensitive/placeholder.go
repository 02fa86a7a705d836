// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"net/netip"
	"slices"
)

// placeholderWords replace removed or missing values, or state what happened to a value.
// They include booleans. A space also matches '_' and '-'.
var placeholderWords = func() map[string]bool {
	m := make(map[string]bool)
	for _, w := range []string{
		"redacted", "hidden", "masked", "filtered", "removed", "omitted", "scrubbed", "sanitized", "obfuscated", "protected", "censored",
		"null", "nil", "none", "undefined", "empty", "unset", "not set", "n/a", "na", "object", "object object", "string",
		"true", "false", "yes", "no", "on", "off", "enabled", "disabled",
		"ok", "okay", "success", "successful", "succeeded", "fail", "failed", "failure", "error", "unknown", "unsupported",
		"valid", "validated", "invalid", "verified", "unverified", "correct", "incorrect", "matched", "mismatch", "found", "not found", "notfound",
		"present", "absent", "missing", "available", "unavailable", "required", "provided", "not provided", "supplied", "not supplied",
		"expired", "revoked", "refreshed", "renewed", "rotated", "issued", "created", "updated", "changed", "unchanged", "deleted", "pending",
		"active", "inactive", "accepted", "rejected", "granted", "denied", "allowed", "forbidden", "authorized", "unauthorized",
		"authenticated", "unauthenticated", "configured", "not configured", "generated", "loaded", "skipped", "ignored", "completed",
		"reset", "stored", "received", "sent", "used", "unused", "done", "cleared", "supported", "deprecated", "optional", "blocked", "locked",
		"timeout", "timed out", "exists", "acquired", "fetched", "retrieved", "checked", "wrong", "bad", "weak", "malformed", "mismatched",
		"passed", "closed", "ready", "registered", "canceled", "cancelled", "aborted", "approved", "declined", "confirmed", "consumed",
		"exhausted", "reused", "in use", "not valid", "not required", "not allowed", "not authorized", "not available", "not present",
		"set", "stale", "fresh", "outdated", "saved", "lost", "started", "stopped", "running", "finished", "complete", "processed", "processing",
		"waiting", "queued", "retrying", "suspended", "activated", "deactivated", "initialized", "refused", "throttled", "corrupt", "corrupted",
		"compromised", "leaked", "reissued", "unlocked", "unconfirmed", "unregistered", "unconfigured", "cached", "healthy", "unhealthy",
		"invalid token", "invalid grant", "expired token", "access denied",
	} {
		m[w] = true
	}
	return m
}()

// placeholder reports whether a value under a secret's name is not a secret: it is empty,
// redacted, a placeholder, a boolean, a time, a version, an IP address or an ARN. Only
// masked checks a part of the value.
func placeholder(v []byte) bool {
	v = bytes.TrimSpace(v)
	if end := len(v) - 1; end > 0 && isQuote(v[0]) && v[end] == v[0] { // "${TOKEN}" with its quotes
		v = bytes.TrimSpace(v[1:end])
	}
	for range len("...") { // the end of a sentence; not all dots, which other values end with, too
		v = bytes.TrimSuffix(v, []byte("."))
	}
	w, whole := trimDecoration(v)
	if len(w) == 0 { // no letter and no digit: "", "?", "--", "***"
		return true
	}
	if whole {
		if toLower(w[0]) == 'x' && len(w) >= 3 && onlyX(w) {
			return true
		}
		if len(w) <= maxPlaceholder {
			var low [maxPlaceholder]byte
			for i, c := range w {
				if low[i] = toLower(c); c == '_' || c == '-' {
					low[i] = ' '
				}
			}
			if placeholderWords[string(low[:len(w)])] {
				return true
			}
		}
	}
	if bytes.IndexByte([]byte("$:?@%"), v[0]) >= 0 { // $1::uuid in SQL
		if at := bytes.Index(v[:min(len(v), maxName)], []byte("::")); at > 0 && isColumnType(v[at+2:]) {
			v = v[:at]
		}
	}
	last := v[len(v)-1]
	switch v[0] {
	case '<':
		return last == '>'
	case '{':
		return last == '}'
	case '#':
		return has(v, 1, "{") && last == '}'
	case '$':
		return placeholderDollar(v[1:])
	case ':': // :name, :1, ::1
		return identifier(v[1:]) || run(v, 1, digit, len(v)) == len(v) || isIPv6(v)
	case '@':
		return placeholderAt(v[1:])
	case '?':
		return run(v, 1, digit, len(v)) == len(v)
	case '%':
		return placeholderPercent(v[1:])
	}
	return bytes.HasPrefix(v, []byte("arn:")) || isMaskedNumber(v) || isTime(v) || isVersionOrIP(v) || isIPv6(v) || isObject(v)
}

// columnTypes are the types of columns in PostgreSQL that hold secrets.
var columnTypes = [...]string{
	"text", "uuid", "varchar", "char", "bpchar", "character", "citext", "bytea", "json", "jsonb", "int", "int4", "int8", "integer", "bigint",
}

// isColumnType reports whether v starts with one of columnTypes: text[], varchar(64). $ecret::x is more likely a password.
func isColumnType(v []byte) bool {
	end := run(v, 0, alnum, maxPlaceholder)
	if end < len(v) && v[end] != '(' && v[end] != '[' {
		return false
	}
	return slices.ContainsFunc(columnTypes[:], func(t string) bool { return len(t) == end && hasPrefixFold(v, 0, t) })
}

// maxPlaceholder is the length of the longest placeholder word.
const maxPlaceholder = 15

// isObject reports whether v is the printed form of an object: Token{...},
// com.example.Token@1f2e3d, [C@1f2e3d.
func isObject(v []byte) bool {
	v = bytes.TrimPrefix(v, []byte("["))
	const longest = 128
	class, end := 0, 0 // where the name after the last dot starts, and where it ends
	for end < len(v) && end < longest && (is(v[end], alnum) || v[end] == '_' || v[end] == '$' || v[end] == '.') {
		if end++; v[end-1] == '.' || v[end-1] == '$' {
			class = end
		}
	}
	if end == len(v) || end == longest || class == end || !is(v[class], upper) {
		return false
	}
	switch v[end] {
	case '{':
		return true
	case '@':
		hash := v[end+1:]
		for _, c := range hash {
			if !isHex(c) {
				return false
			}
		}
		return 1 <= len(hash) && len(hash) <= 16 && (class > 0 || end == 1) // not Admin@123
	}
	return false
}

// trimDecoration trims all bytes from both ends that are neither ASCII letters or
// digits nor non-ASCII. If the rest is neither a run of x nor as short as a placeholder
// word, it returns only its start, and false: values overlap, so searching for the end
// of each would take quadratic time.
func trimDecoration(v []byte) (w []byte, whole bool) {
	for len(v) > 0 && !is(v[0], alnum|high) {
		v = v[1:]
	}
	// A bullet (U+2022, U+25CF) is the asterisk of password fields.
	for _, bullet := range [...]string{"•", "●"} {
		for bytes.HasPrefix(v, []byte(bullet)) {
			v = v[len(bullet):]
		}
	}
	end, x := 0, true // end of the run of x so far
	for i, c := range v {
		if !is(c, alnum|high) {
			continue
		}
		x = x && onlyX(v[end:i+1])
		if end = i + 1; end > maxPlaceholder && !x {
			return v[:end], false
		}
	}
	return v[:end], true
}

// isMaskedNumber reports whether v is a number masked except for its last four digits:
// XXXX-XXXX-XXXX-4242, xxx-xx-6789.
func isMaskedNumber(v []byte) bool {
	const shown, longest = 4, 32
	end := len(v) - shown
	return end > shown && len(v) <= longest && toLower(v[0]) == 'x' && onlyX(v[:end]) && run(v, end, digit, shown) == len(v)
}

func onlyX(v []byte) bool {
	for _, c := range v {
		if c != 'x' && c != 'X' && c != '-' && c != ' ' {
			return false
		}
	}
	return true
}

// identifier reports whether v is a programmer's name.
func identifier(v []byte) bool {
	if len(v) == 0 || is(v[0], digit) {
		return false
	}
	for _, c := range v {
		if !is(c, alnum) && c != '_' {
			return false
		}
	}
	return true
}

// placeholderDollar checks the text after a '$': 1, {NAME}, (command), NAME, name.
func placeholderDollar(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	switch v[0] {
	case '{', '(':
		return v[len(v)-1] == '}' || v[len(v)-1] == ')'
	}
	if is(v[0], digit) {
		return run(v, 0, digit, len(v)) == len(v)
	}
	if !identifier(v) {
		return false
	}
	// $NAME_2 and $name are variables; $ecret1 is more likely a password.
	digits, lowers := false, false
	for _, c := range v {
		digits = digits || is(c, digit)
		lowers = lowers || is(c, lower)
	}
	return !digits || !lowers
}

// placeholderAt checks the text after an '@', the name of a parameter in SQL: p1, sid, sid_1, __sid_0, or one named like a
// secret, as Token1. @dmin123 is more likely a password.
func placeholderAt(v []byte) bool {
	if !identifier(v) {
		return false
	}
	const digits = "0123456789"
	name := bytes.TrimRight(v, digits)
	numbered := len(name) < len(v) && name[len(name)-1] == '_'
	if n, _ := nameAt(name, len(name)); n != nil || numbered && has(v, 0, "__") {
		return true
	}
	return !bytes.ContainsAny(name, digits) && (len(name) == len(v) || len(name) == 1 || numbered)
}

// placeholderPercent checks the text after a '%': a printf verb, (name)s, {name} or
// NAME%.
func placeholderPercent(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	last := v[len(v)-1]
	switch {
	case v[0] == '(' || v[0] == '{':
		return last == '}' || is(last, letter)
	case last == '%':
		return identifier(v[:len(v)-1])
	}
	i := 0
	for i < len(v) && (is(v[i], digit) || v[i] == '-' || v[i] == '+' || v[i] == '#' || v[i] == '.') {
		i++
	}
	return i == len(v)-1 && is(last, letter)
}

// isTime reports whether v is a date like 2026-01-31, optionally followed by a time of day.
func isTime(v []byte) bool {
	if len(v) < 10 || v[4] != '-' || v[7] != '-' || len(v) > 10 && v[10] != 'T' && v[10] != ' ' {
		return false
	}
	for _, i := range [...]int{0, 1, 2, 3, 5, 6, 8, 9} {
		if !is(v[i], digit) {
			return false
		}
	}
	return len(v) == 10 || len(v) <= 40 && len(v) >= 16 && v[13] == ':'
}

// isVersionOrIP reports whether v is two or more numbers joined by dots, a 'v' or
// the operator of a version range allowed before and a port after, as in v1.2.3,
// ^9.0.0 and 10.0.0.1:80.
func isVersionOrIP(v []byte) bool {
	v = bytes.TrimLeft(v, "v^~<>=")
	dots, i := 0, 0
	for {
		end := run(v, i, digit, 6)
		if end == i || end-i > 5 {
			return false
		}
		if i = end; i == len(v) {
			return dots >= 1
		}
		switch {
		case v[i] == '.' && dots < 4:
			dots++
		case v[i] == ':' && dots == 3:
			dots = 5
		default:
			return false
		}
		i++
	}
}

// inUse are the parts of the IPv6 address space that are assigned. Source: IANA, Internet Protocol Version 6 Address Space.
var inUse = []netip.Prefix{
	netip.MustParsePrefix("::/96"), // loopback
	netip.MustParsePrefix("::ffff:0:0/96"),
	netip.MustParsePrefix("64:ff9b::/32"), // translation to IPv4
	netip.MustParsePrefix("2000::/3"),
	netip.MustParsePrefix("fc00::/7"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

// isIPv6 reports whether v is an IPv6 address in use, also with a zone, in brackets or with a port: 2001:db8::1,
// fe80::1%eth0, [::1]:80. a1::b2 may be a password.
func isIPv6(v []byte) bool {
	const longest = 64
	if len(v) > longest || bytes.Count(v, []byte(":")) < 2 {
		return false
	}
	if v[0] == '[' && v[len(v)-1] == ']' {
		v = v[1 : len(v)-1]
	}
	a, err := netip.ParseAddr(string(v))
	if err != nil {
		withPort, _ := netip.ParseAddrPort(string(v))
		a = withPort.Addr()
	}
	a = a.WithZone("")
	return slices.ContainsFunc(inUse, func(p netip.Prefix) bool { return p.Contains(a) })
}

// encodedPlaceholder reports whether a percent-encoded value, up to the encoded character that ends it, is a placeholder:
// null%26user%3Dbob.
func encodedPlaceholder(v []byte) bool {
	const longest = 64
	v = v[:min(len(v), longest)]
	decoded := make([]byte, 0, longest)
	for i := 0; i < len(v); i++ {
		c := v[i]
		p := percent(v, i)
		if p != 0 {
			c = p
			i += 2
		}
		switch {
		case len(decoded) == 0 && (c == '+' || isBlank(c) || c == '\\' || isQuote(c)): // before the value: password%3A+%22hunter2%22
			continue
		case p != 0 && is(c, stop) && (c != '<' || len(decoded) > 0):
			return placeholder(decoded) || placeholder(append(decoded, c)) // or ends with it: <hidden>
		}
		decoded = append(decoded, c)
	}
	return len(v) < longest && placeholder(decoded)
}

// findMask returns the start of the first sign of redaction, *** or "redacted"
// in any case, that starts in s[from:to]; to when there is none.
func findMask(s []byte, from, to int) int {
	for i := from; i < to; i++ {
		switch s[i] {
		case '*':
			if has(s[:to], i, "***") {
				return i
			}
		case 'r', 'R':
			if hasPrefixFold(s[:to], i, "redacted") {
				return i
			}
		case '%':
			if hasPrefixFold(s[:to], i, "%2a%2a%2a") {
				return i
			}
		}
	}
	return to
}

// exempt reports whether a value under the name n is not a secret.
func exempt(n *name, v []byte) bool {
	return exemptUnder(n, v) || placeholder(v) || findMask(v, 0, len(v)) < len(v)
}

// exemptUnder checks the exemptions that depend on the name: small counts, and paths
// under PWD.
func exemptUnder(n *name, v []byte) bool {
	v = bytes.TrimSpace(v)
	if n.ids != 0 {
		return idUnder(n.ids, v) == None
	}
	if n.counts && len(v) <= 4 && run(v, 0, digit, 4) == len(v) {
		return true
	}
	if isConstant(n, v) || isSecretObject(v) {
		return true
	}
	return n.path && isPath(v) || n.line && len(v) <= maxLine && cookieAttributes(v)
}

// isConstant reports whether v is an identifier in upper case that ends with the name n:
// token=NO_DEVICE_TOKEN, password=DB_PASSWORD.
func isConstant(n *name, v []byte) bool {
	const longest = 64
	if len(v) > longest || !bytes.Contains(v, []byte("_")) {
		return false
	}
	for _, c := range v {
		if !is(c, upper|digit) && c != '_' {
			return false
		}
	}
	last, _ := nameAt(v, len(v))
	return last == n
}

// isSecretObject reports whether v is the generated name of a Kubernetes Secret:
// default-token-wjfhf, builder-dockercfg-x2x9z.
func isSecretObject(v []byte) bool {
	const suffix, longest = 5, 253
	end := len(v) - suffix
	if end < 0 || len(v) > longest || !bytes.HasSuffix(v[:end], []byte("-token-")) && !bytes.HasSuffix(v[:end], []byte("-dockercfg-")) {
		return false
	}
	for _, c := range v {
		if !is(c, lower|digit) && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// cookieAttributes reports whether v has only attributes of a cookie (SameSite=Lax) and
// cookies with a placeholder as their value, or none.
func cookieAttributes(v []byte) bool {
	for part := range bytes.SplitSeq(v, []byte(";")) {
		name, value, pair := bytes.Cut(bytes.TrimSpace(part), []byte("="))
		if !cookieAttribute(name) && (!pair || !placeholder(value)) {
			return false
		}
	}
	return true
}

func cookieAttribute(name []byte) bool {
	for _, a := range [...]string{
		"", "path", "domain", "expires", "max-age", "secure", "httponly", "samesite", "partitioned", "priority",
		"mstshash", // the user name in the first packet of RDP
	} {
		if len(name) == len(a) && hasPrefixFold(name, 0, a) {
			return true
		}
	}
	return false
}

func isPath(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	switch v[0] {
	case '/', '~', '\\':
		return true
	case '.':
		return len(v) == 1 || v[1] == '/' || v[1] == '\\' || v[1] == '.'
	}
	// A backslash ends an unquoted value in a text, so C: may be all there is.
	return len(v) >= 2 && is(v[0], letter) && v[1] == ':' && (len(v) == 2 || v[2] == '\\' || v[2] == '/')
}
