// SPDX-License-Identifier: Apache-2.0

package dashboard

import "strings"

// WholeText returns a text from telemetry as a page shows it in full.
func WholeText(s string) string {
	var b strings.Builder
	for _, p := range visible(s, longText) {
		b.WriteString(p.text)
	}
	return b.String()
}
