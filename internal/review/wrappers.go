// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"sync"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// maxWrapperFiles limits the files in which wrappers are looked up, per package and in total.
const (
	maxPackageFiles = 200
	maxWrapperFiles = 5_000
)

// wrappers looks up the functions of the repository that pass parameters on to telemetry. It parses a file once, when a
// function of it is first looked up. It is safe for concurrent use.
type wrappers struct {
	run    *run
	byName map[string][]file // by the last element of the path without its extension

	mu    sync.Mutex
	files map[string]func() map[string]instrumentation.Wrapper
}

func newWrappers(r *run) *wrappers {
	w := &wrappers{run: r, byName: map[string][]file{}, files: map[string]func() map[string]instrumentation.Wrapper{}}
	for _, f := range r.files {
		if f.language != syntax.Unknown && f.language != syntax.Go {
			w.byName[stem(f.path)] = append(w.byName[stem(f.path)], f)
		}
	}
	return w
}

// stem returns the path of the module in a file without its directories: "tracing" for src/tracing.py and
// src/tracing/index.ts.
func stem(name string) string {
	base, _, _ := strings.Cut(path.Base(name), ".")
	if base == "index" || base == "__init__" {
		return path.Base(path.Dir(name))
	}
	if ext := path.Ext(name); ext != ".py" && ext != ".java" { // tracing.service.ts
		return strings.TrimSuffix(path.Base(name), ext)
	}
	return base
}

// Wrapper looks up a function, or a method of a class.
func (p packages) Wrapper(module, class, name string) (instrumentation.Wrapper, bool) {
	for _, f := range p.filesOf(module, class) {
		if w, ok := p.wrappers.load(f)[name]; ok {
			return w, true
		}
	}
	return instrumentation.Wrapper{}, false
}

// filesOf returns the files that may declare the functions of a module or class.
func (p packages) filesOf(module, class string) []file {
	var files []file
	switch p.language {
	case syntax.Go:
		dir := p.dir
		if module != "" {
			var ok bool
			if dir, ok = p.resolve(p.dir, module); !ok {
				return nil
			}
		}
		for _, name := range p.files[dir][:min(len(p.files[dir]), maxPackageFiles)] {
			files = append(files, file{path: name, language: syntax.Go})
		}
		return files
	case syntax.Java:
		if module == "" {
			return p.wrappers.find(path.Join(p.dir, class), true)
		}
		return p.wrappers.find(path.Join(strings.ReplaceAll(module, ".", "/"), class), false)
	case syntax.Python:
		name := strings.TrimLeft(module, ".")
		dots := len(module) - len(name)
		where := strings.ReplaceAll(name, ".", "/")
		if dots > 0 {
			from := p.dir
			for ; dots > 1; dots-- {
				from = directory(from)
			}
			where = path.Join(from, where)
		}
		if class != "" { // from shop import tracing
			files = p.wrappers.find(path.Join(where, class), module != name)
		}
		if len(files) == 0 {
			files = p.wrappers.find(where, module != name)
		}
		return files
	case syntax.JavaScript, syntax.TypeScript:
		if !strings.HasPrefix(module, ".") {
			return nil
		}
		where := path.Join(p.dir, module)
		for _, ext := range []string{".js", ".mjs", ".cjs"} { // of TypeScript as well
			where = strings.TrimSuffix(where, ext)
		}
		return p.wrappers.find(strings.TrimSuffix(where, "/index"), true)
	}
	return nil
}

// find returns the file of a module in languages other than Go, by its path without the extension, or by the end of the
// path. It returns none if there are several.
func (w *wrappers) find(where string, exact bool) []file {
	all := slices.DeleteFunc(slices.Clone(w.byName[path.Base(where)]), func(f file) bool {
		name := strings.TrimSuffix(f.path, path.Ext(f.path))
		name = strings.TrimSuffix(strings.TrimSuffix(name, "/index"), "/__init__")
		return name != where && (exact || !strings.HasSuffix(name, "/"+where))
	})
	if len(all) != 1 {
		return nil
	}
	return all
}

// load returns the wrappers of a file.
func (w *wrappers) load(f file) map[string]instrumentation.Wrapper {
	w.mu.Lock()
	once, ok := w.files[f.path]
	if !ok && len(w.files) < maxWrapperFiles {
		once = sync.OnceValue(func() map[string]instrumentation.Wrapper { return w.read(f) })
		w.files[f.path] = once
	}
	w.mu.Unlock()
	if once == nil {
		return nil
	}
	return once()
}

func (w *wrappers) read(f file) (all map[string]instrumentation.Wrapper) {
	defer func() {
		if recover() != nil { // a defect of the parser: the wrappers are unknown
			all = nil
		}
	}()
	source, err := readFile(w.run.root, f.path, maxFileSize)
	if err != nil || !bytes.Contains(source, []byte("elemetry")) || skipContent(f.language, source) != "" {
		return nil
	}
	tree, err := w.run.parse(f, source)
	if err != nil {
		return nil
	}
	all = instrumentation.Find(tree, nil).Wrappers()
	if tree.Exhausted() {
		return nil
	}
	return all
}
