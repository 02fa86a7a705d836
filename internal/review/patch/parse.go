// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"context"

	"assay/internal/review/configfile"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Parses reports whether a file can be parsed.
func Parses(ctx context.Context, parser *treesitter.Parser, path string, text []byte) bool {
	language := syntax.LanguageOf(path)
	if language == syntax.Unknown {
		_, err := configfile.Parse(path, text)
		return err == nil
	}
	f, err := syntax.Parse(ctx, parser, path, language, text)
	return err == nil && !f.Broken && (language != syntax.Python || indented(text))
}
