// SPDX-License-Identifier: Apache-2.0

// Package redact hides sensitive data in text from repositories: in files that a language model reads, in the output of
// tests, and in the code of findings.
//
// Package sensitive detects values by their form. A file may also contain a secret without a recognizable form next to
// its name. A line that may contain such a value is hidden as a whole (names.go), as is a line of a private key
// (redact.go). The text is read once, without knowledge of its language, so the parser can be in a wrong state. It then
// hides more lines rather than fewer. The work is linear in the bytes of the text.
package redact
