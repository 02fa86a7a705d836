// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"regexp"
	"strings"
)

// credentialName matches the name of a variable or setting whose value is a credential.
var credentialName = regexp.MustCompile(`(?i)(^|[_.\-])(api[_-]?key|app(lication)?[_-]?key|access[_-]?key|account[_-]?key|secret[_-]?key([_-]?base)?|private[_-]?key|license[_-]?key|ingest(ion)?[_-]?key|shared[_-]?key|signing[_-]?key|encryption[_-]?key|write[_-]?key|client[_-]?secret|secret|[a-z]*token|pgpassword|password|passwd|passphrase|pass|pwd)$|apikey$|accesskey$|secretkey$|licensekey$|password$|token$|clientsecret$`)

// credentialHeader matches the name of a header whose value is a credential.
var credentialHeader = regexp.MustCompile(`(?i)^(authorization|proxy-authorization|cookie|x-honeycomb-team|.*(api|access|license|ingest|ingestion|write|auth)[_-]?(key|token)|.*[_-](token|secret|password)|apikey|token|x-sf-token|uptrace-dsn|dash0-.*token)$`)

// publicName matches names, with underscores between their words, that look like names of credentials and are not,
// unless they end with secretEnd.
var publicName = regexp.MustCompile(`(?i)(^|_)(public(_?keys?)?|publishable(_?keys?)?|(max|num)_?tokens?|` +
	`csrf[a-z]*_?tokens?|vite|react_app|instrumentation_?key|token_?(url|uri|endpoint|path|file|type|header|name|issuer))(_|$)|_(file|path|name)$`)

// secretEnd matches the end of a name whose value is always a secret, regardless of the rest of the name.
var secretEnd = regexp.MustCompile(`(?i)(password|passwd|passphrase|pwd|secret)s?(_?key)?$`)

// CredentialName reports whether the value of a variable or setting with this name is a credential.
func CredentialName(name string) bool {
	return credentialName.MatchString(name) || credentialName.MatchString(separated(name))
}

// CredentialHeader reports whether the value of a header with this name is a credential.
func CredentialHeader(name string) bool { return credentialHeader.MatchString(name) }

// PublicName reports whether a name looks like that of a credential and is not.
func PublicName(name string) bool {
	return publicName.MatchString(separated(name)) && !secretEnd.MatchString(separated(name))
}

// MayName reports whether a name may be that of a secret. It is for callers that would rather hide too much: it finds the
// names that [UnderKey], [CredentialName] and [CredentialHeader] find, and others with such a word, as in
// SSL_KEYSTORE_PASSWORD_CONFIG. A number of names that are public, as token_url, are none.
func MayName(name string) bool {
	name = strings.Trim(name, "-_.$")
	if !credentialStem.MatchString(name) {
		return UnderKey([]byte(name)).Secret()
	}
	return !PublicName(name) &&
		(credentialWord.MatchString(separated(name)) || CredentialName(name) || CredentialHeader(name) || UnderKey([]byte(name)).Secret())
}

// credentialStem matches a part of each name that credentialWord, credentialName and credentialHeader match.
var credentialStem = regexp.MustCompile(`(?i)pass|pwd|pw$|secret|token|key|auth|cred|cookie|hmac|jwt|session|honeycomb|dsn|chararray|psk|sign_?with|cipher`)

// credentialWord matches the words of a name, separated by underscores, that may be that of a secret.
var credentialWord = regexp.MustCompile(`(?i)(^|_)(\w*(password|passwd|passphrase|secret|apikey|accesskey|secretkey|pwd)s?|pass$|pass_\d|passcode|require_?pass|psk$|pw$|[a-z]*tokens?|creds?|credentials?|cookies|(basic_)?auth(entication)?$|master_?auth|jwt_sign|hmac_new|create_hmac|` +
	`((db|user|root|admin|bind)_?|store|key)(pw|pass)|hmac\d+|hmac_sha_key_for|sign_with|new_cipher|create_cipher(iv)?|to_char_array|` +
	`(api|app|application|access|account|secret|private|license|ingest|ingestion|shared|signing|encrypt|encryption|decryption|validation|pre_?shared|subscription|functions|fernet|service|write|storage|master|jwt|hmac|aes|session)_keys?)\d*(_|$)`)

// separated returns a name with underscores between its words.
func separated(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case !is(c, alnum|high):
			c = '_'
		case i > 0 && is(c, upper) && (is(name[i-1], lower|digit) || is(name[i-1], upper) && i+1 < len(name) && is(name[i+1], lower)):
			b.WriteByte('_')
		}
		b.WriteByte(c)
	}
	return b.String()
}
