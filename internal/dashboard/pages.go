// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"assay"
)

//go:embed templates
var templateFiles embed.FS

// shared are the templates that every page has.
var shared = []string{"templates/layout.html", "templates/parts.html"}

// link is an entry of the navigation.
type link struct{ Section, Title, Path string }

var navigation = []link{
	{"overview", "Overview", "/"},
	{"services", "Services", "/services"},
	{"insights", "Insights", "/insights"},
	{"code", "Code", "/repositories"},
	{"costs", "Costs", "/costs"},
	{"rules", "Rules", "/rules"},
	{"keys", "Keys", "/keys"},
}

// parsePages returns the templates by the name of the page.
func (h *Handler) parsePages() (map[string]*template.Template, error) {
	base, err := template.New("").Funcs(h.functions()).ParseFS(templateFiles, shared...)
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, file := range files {
		if slices.Contains(shared, file) {
			continue
		}
		t, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if pages[strings.TrimSuffix(path.Base(file), ".html")], err = t.ParseFS(templateFiles, file); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// checks are options of a form of which several can be chosen.
type checks struct {
	Name    string
	Options []option
}

// rows are the rows of a table that several pages have.
type rows struct {
	Rows any
	Now  time.Time
}

// findingRows are the rows of a table of findings.
type findingRows struct {
	Rows       []agentFinding
	Now        time.Time
	Repository bool // show the repository of each finding
}

// functions are the functions that templates can call.
func (h *Handler) functions() template.FuncMap {
	return template.FuncMap{
		"asset": func(name string) (string, error) {
			if at := h.assets.path(name); at != "" {
				return at, nil
			}
			return "", fmt.Errorf("no asset %s", name)
		},
		"nav": func() []link { return navigation },
		"themes": func() []option {
			return []option{{Value: "", Label: "System"}, {Value: "light", Label: "Light"}, {Value: "dark", Label: "Dark"}}
		},
		"name": name, "fullName": fullName, "sentence": sentence, "rest": rest, "key": key, "plain": plain, "code": code,
		"ago": ago, "bytes": bytesText, "signed": signed, "plural": plural, "slug": slug,
		"checks": func(name string, options []option) checks { return checks{name, options} },
		"thousands": func(n any) (string, error) {
			switch n := n.(type) {
			case int:
				return thousands(n), nil
			case uint64:
				return thousands(n), nil
			default:
				return "", fmt.Errorf("%T is not a count", n)
			}
		},
		"weight":   func(i assay.Impact) int { return i.Weight() },
		"impact":   func(s string) assay.Impact { return assay.Impact(s) },
		"severity": agentImpact,
		"rows":     func(list any, now time.Time) rows { return rows{list, now} },
		"findingRows": func(list []agentFinding, now time.Time, repository bool) findingRows {
			return findingRows{list, now, repository}
		},
		"reversed": func(layers []layer) []layer {
			layers = slices.Clone(layers)
			slices.Reverse(layers)
			return layers
		},
	}
}
