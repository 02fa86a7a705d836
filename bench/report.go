// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table is one table of results.
type table struct {
	Bench   string   `json:"bench"`
	Title   string   `json:"title"`
	Columns []string `json:"columns"` // of the values; names of rows come first
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
	Targets []target `json:"targets,omitempty"`
}

// row is a subject and its values; NaN prints as a dash and is null in JSON.
type row struct {
	Name   string  `json:"name"`
	Values []value `json:"values"`
}

type value float64

// MarshalJSON writes null for values without a number in JSON.
func (v value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// none is the value of a subject without one.
var none = value(math.NaN())

// String returns the value with three significant digits, whole from 100 on.
func (v value) String() string {
	switch f := float64(v); {
	case math.IsNaN(f):
		return "-"
	case f == 0:
		return "0"
	case math.Abs(f) >= 100:
		return thousands(int64(math.Round(f)))
	case math.Abs(f) >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case math.Abs(f) >= 0.1:
		return strconv.FormatFloat(f, 'f', 2, 64)
	default:
		return strconv.FormatFloat(f, 'g', 2, 64)
	}
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// target is a limit for a value.
type target struct {
	What    string `json:"what"`
	Want    value  `json:"want"`
	Got     value  `json:"got"`
	AtMost  bool   `json:"at_most"` // else at least
	Reached bool   `json:"reached"`
}

func atLeast(what string, want, got float64) target {
	return target{What: what, Want: value(want), Got: value(got), Reached: got >= want}
}

func atMost(what string, want, got float64) target {
	return target{What: what, Want: value(want), Got: value(got), AtMost: true, Reached: got <= want}
}

// print writes the table as text.
func (t *table) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s: %s\n\n", t.Bench, t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, r := range t.Rows {
		width = max(width, len(r.Name))
	}
	fmt.Fprintf(tw, "%-*s\t%s\t\n", width, "", strings.Join(t.Columns, "\t"))
	for _, r := range t.Rows {
		fmt.Fprintf(tw, "%-*s\t", width, r.Name)
		for _, v := range r.Values {
			fmt.Fprintf(tw, "%s\t", v)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, n := range t.Notes {
		fmt.Fprintf(w, "  %s\n", n)
	}
	for _, g := range t.Targets {
		limit, word := "at least", "reached"
		if g.AtMost {
			limit = "at most"
		}
		if !g.Reached {
			word = "MISSED"
		}
		fmt.Fprintf(w, "  target: %s %s %s: %s, %s\n", g.What, limit, g.Want, g.Got, word)
	}
	return nil
}

// quantile returns the q-quantile of values, which it sorts.
func quantile[T cmp.Ordered](values []T, q float64) T {
	slices.Sort(values)
	i := int(math.Ceil(q*float64(len(values)))) - 1
	return values[min(max(i, 0), len(values)-1)]
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// ratios are the quotients of values measured in the same rounds.
type ratios []float64

func paired(a, b []float64) ratios {
	r := make(ratios, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

func (r ratios) median() float64 { return median(r) }
func (r ratios) min() float64    { return slices.Min(r) }
func (r ratios) max() float64    { return slices.Max(r) }
