// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"slices"
	"strings"

	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// javaPrefixes begin the packages of the source libraries of Java, which have no table yet.
var javaPrefixes = []string{"io.opentracing", "io.opencensus", "io.jaegertracing", "brave", "datadog.trace"}

// java names the files that use a source library.
func (m *migration) java(ctx context.Context) error {
	for _, name := range m.paths {
		if syntax.LanguageOf(name) != syntax.Java {
			continue
		}
		source, err := patch.Read(m.root, name)
		if err != nil || !mentions(source, javaPrefixes) {
			continue
		}
		f, err := syntax.Parse(ctx, m.parser, name, syntax.Java, source)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue
		}
		at := slices.IndexFunc(f.Imports, func(i syntax.Import) bool {
			return slices.ContainsFunc(javaPrefixes, func(p string) bool {
				rest, ok := strings.CutPrefix(i.Path, p)
				return ok && (rest == "" || rest[0] == '.')
			})
		})
		if at >= 0 {
			line, _ := f.Position(f.Imports[at].Node.Start)
			m.open(name, line, "%s is in no table: there is none for Java.", f.Imports[at].Path)
		}
	}
	return nil
}
