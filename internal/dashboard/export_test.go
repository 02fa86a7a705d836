// SPDX-License-Identifier: Apache-2.0

package dashboard

import "strings"

// WholeText is a text from telemetry as a page reads that shows all of it.
func WholeText(s string) string {
	var b strings.Builder
	for _, p := range visible(s, longText) {
		b.WriteString(p.text)
	}
	return b.String()
}
