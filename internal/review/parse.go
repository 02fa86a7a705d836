// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"

	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// NewParser loads the grammars of the languages other than Go, which takes less than a second with a cache directory
// (treesitter.New) and seconds without.
func NewParser(ctx context.Context, cache string) (*treesitter.Parser, error) {
	if cache != "" {
		if p, err := treesitter.New(ctx, cache); err == nil {
			return p, nil
		}
	}
	p, err := treesitter.New(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("load the grammars: %w", err)
	}
	return p, nil
}

// parse returns the tree of a source file. The first file of a language other than Go loads the grammars.
func (r *run) parse(f file, source []byte) (*syntax.File, error) {
	if f.language == syntax.Go {
		return syntax.ParseGo(f.path, source)
	}
	p, err := r.parser()
	if err != nil {
		return nil, err
	}
	return syntax.Parse(r.ctx, p, f.path, f.language, source)
}
