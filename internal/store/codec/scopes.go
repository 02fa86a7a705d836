// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strings"

	"assay"
	"assay/internal/lists"
)

// JoinScopes returns scopes in their stored form.
func JoinScopes(scopes []assay.Scope) string {
	texts := lists.Map(scopes, func(sc assay.Scope) string { return string(sc) })
	return strings.Join(texts, ",")
}

// SplitScopes is the inverse of JoinScopes.
func SplitScopes(text string) []assay.Scope {
	if text == "" {
		return nil
	}
	return lists.Map(strings.Split(text, ","), func(s string) assay.Scope { return assay.Scope(s) })
}
