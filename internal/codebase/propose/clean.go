// SPDX-License-Identifier: Apache-2.0

package propose

// Clean returns a text of several lines, such as the output of tests, without sensitive data and invisible characters.
// A line of a private key, or with a value that belongs to a name of another line, is replaced as a whole.
func Clean(text string) string { return cleanText(text) }
