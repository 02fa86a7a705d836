// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"go/ast"
	"go/token"
)

// maxConstant is the maximum length in bytes of a string constant in files whose types are checked. The type checker
// holds the values of constants, and a few lines can double a string many times.
const maxConstant = 1 << 20

// constants holds the expressions of a module's constants by name, for all packages together.
type constants struct {
	values map[string][]ast.Expr
	sizes  map[string]int // computed; 0 while a name is being computed
}

// leaveLargeConstants marks the files whose constants may be longer than maxConstant.
func leaveLargeConstants(files []*goFile) {
	c := &constants{values: map[string][]ast.Expr{}, sizes: map[string]int{}}
	names := map[*goFile][]string{}
	for _, f := range files {
		if f.broken {
			continue
		}
		for n := range ast.Preorder(f.tree) {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for _, s := range d.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for i, name := range v.Names {
					if i < len(v.Values) {
						c.values[name.Name] = append(c.values[name.Name], v.Values[i])
						names[f] = append(names[f], name.Name)
					}
				}
			}
		}
	}
	for f, declared := range names {
		for _, name := range declared {
			f.broken = f.broken || c.size(name, 0) > maxConstant
		}
	}
}

// maxReferences is the maximum depth of references between constants. A constant with deeper references counts as too
// long.
const maxReferences = 1000

// size returns an upper bound for the length of a constant in bytes, at most maxConstant+1.
func (c *constants) size(name string, depth int) int {
	if n, ok := c.sizes[name]; ok {
		return n
	}
	if depth > maxReferences {
		return maxConstant + 1
	}
	c.sizes[name] = 0
	largest := 0
	for _, value := range c.values[name] {
		n := 0
		for node := range ast.Preorder(value) {
			switch node := node.(type) {
			case *ast.BasicLit:
				n += len(node.Value)
			case *ast.Ident:
				n += c.size(node.Name, depth+1)
			}
			n = min(n, maxConstant+1)
		}
		largest = max(largest, n)
	}
	c.sizes[name] = largest
	return largest
}
