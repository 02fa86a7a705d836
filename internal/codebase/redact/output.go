// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"strings"
)

// Output returns the output of tests without sensitive data and invisible characters. Lines of private keys are hidden
// as a whole. Unlike [Lines], it shows other lines near the name of a secret, since they often show why a test failed.
func Output(output string) string {
	lines := strings.Split(output, "\n")
	hidden := make([]bool, len(lines))
	hidePrivateKeys(lines, hidden)
	lines, _ = shown(context.Background(), lines, hidden)
	return strings.Join(lines, "\n")
}
