// SPDX-License-Identifier: Apache-2.0

package check

import "regexp"

// verbs matches the places of values in the formats of the languages: %s, %[1]d, %(name)s, {}, {0}, {name!r:>10}.
var verbs = regexp.MustCompile(`%(?:\[\d+\])?(?:\(\w+\))?[-+# 0]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]|\{[^{}\s]{0,40}\}`)
