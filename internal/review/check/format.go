// SPDX-License-Identifier: Apache-2.0

package check

import "regexp"

// verbs matches the placeholders in format strings of all languages: %s, %[1]d, %(name)s, {}, {0}, {name!r:>10}.
var verbs = regexp.MustCompile(`%(?:\[\d+\])?(?:\(\w+\))?[-+# 0]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]|\{[^{}\s]{0,40}\}`)
