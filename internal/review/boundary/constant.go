// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

// null is the constant null, nil, undefined or None. Other constants are bool, float64 and string.
type null struct{}

// constant returns the value of an expression, or nil if it is unknown. A variable that the change adds has a known
// value if it is assigned once.
func (r *running) constant(n *syntax.Node) any {
	v, ok := r.values[n]
	if !ok {
		r.values[n] = nil // a variable may depend on itself
		v = r.evaluate(n)
		r.values[n] = v
	}
	return v
}

func (r *running) evaluate(n *syntax.Node) any {
	switch n.Kind {
	case syntax.Bool:
		return n.Text == "true"
	case syntax.String:
		return n.Text
	case syntax.Null:
		return null{}
	case syntax.Number:
		text := strings.TrimRight(strings.ReplaceAll(n.Text, "_", ""), "nLl")
		if i, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float64(i)
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case syntax.Name, syntax.Member:
		if n.Text == "TYPE_CHECKING" {
			return false
		}
		if n.Kind == syntax.Member || r.before == nil || r.changes[n.Text] || r.before.words[n.Text] {
			return nil
		}
		if v := r.Value(n); v != nil {
			return r.constant(v)
		}
	case syntax.Call:
		if name := n.Callee(); name.Kind == syntax.Name && len(n.Children) == 2 && slices.Contains([]string{"range", "bool", "Boolean"}, name.Text) {
			return r.constant(n.Children[1]) // same truth value
		}
	case syntax.Conditional:
		switch truth(r.constant(n.Children[0])) {
		case yes:
			return r.constant(n.Children[1])
		case no:
			return r.constant(n.Children[2])
		}
	case syntax.Operator:
		switch len(n.Children) {
		case 1:
			return unary(n.Text, r.constant(n.Children[0]))
		case 2:
			return r.binary(n)
		}
	}
	return nil
}

func unary(operator string, x any) any {
	switch operator {
	case "!", "not":
		switch truth(x) {
		case yes:
			return false
		case no:
			return true
		}
	case "void":
		return null{}
	case "-":
		if f, ok := x.(float64); ok {
			return -f
		}
	}
	return nil
}

func (r *running) binary(n *syntax.Node) any {
	x, y := r.constant(n.Children[0]), r.constant(n.Children[1])
	switch n.Text {
	case "&&", "and", "||", "or":
		deciding := no
		if n.Text == "||" || n.Text == "or" {
			deciding = yes
		}
		switch {
		case truth(x) == deciding:
			return x
		case truth(x) != unknown:
			return y
		case truth(y) == deciding:
			return deciding == yes // x or y, but both count the same
		}
		return nil
	case "==", "===", "is":
		return equal(n, x, y)
	case "!=", "!==":
		return unary("!", equal(n, x, y))
	}
	a, ok := x.(float64)
	b, both := y.(float64)
	if !ok || !both {
		return nil
	}
	switch n.Text {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	}
	return nil
}

// equal compares two operands: constants of the same type, or a variable with itself. It returns nil if the result is
// unknown.
func equal(n *syntax.Node, x, y any) any {
	if a, b := n.Children[0], n.Children[1]; a.Kind == syntax.Name && b.Kind == syntax.Name && a.Text == b.Text {
		return true
	}
	if x == nil || y == nil || reflect.TypeOf(x) != reflect.TypeOf(y) {
		return nil
	}
	return x == y
}

// The truth of a condition.
const (
	unknown = iota
	yes
	no
)

// truth returns whether a constant value meets a condition.
func truth(v any) int {
	met := true
	switch v := v.(type) {
	case nil:
		return unknown
	case bool:
		met = v
	case float64:
		met = v != 0
	case string:
		met = v != ""
	case null:
		met = false
	}
	if met {
		return yes
	}
	return no
}
