// SPDX-License-Identifier: Apache-2.0

// Package redact hides the sensitive data of texts of repositories: of files that a language model reads, of the output of
// tests, and of the code in findings.
//
// The detector of package sensitive finds values by their form. A file has more: a value without a form, near the name of
// a secret. A line that may have one is hidden as a whole (names.go), as is a line of a private key (redact.go). The text
// is read once, whatever its language, so a state can be wrong; a rule is then to hide more, not less. The work is linear
// in the bytes of a text.
package redact
