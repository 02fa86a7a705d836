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
	var file *syntax.File
	var err error
	switch language := syntax.LanguageOf(path); language {
	case syntax.Unknown:
		_, err = configfile.Parse(path, text)
	case syntax.Go:
		file, err = syntax.ParseGo(path, text)
	default:
		file, err = syntax.Parse(ctx, parser, path, language, text)
	}
	return err == nil && (file == nil || !file.Broken && (file.Language != syntax.Python || indented(text)))
}
