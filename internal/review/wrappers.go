// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// Limits of the files in which wrappers are looked up: of a package, in total, and with the same name.
const (
	maxPackageFiles = 200
	maxWrapperFiles = 5_000
	maxNamesakes    = 100
)

// wrappers looks up the functions of the repository that pass parameters on to telemetry. It parses a file once, when a
// function of it is first looked up. It is safe for concurrent use.
type wrappers struct {
	run    *run
	byPath map[string][]file // by the path of the module, except in Go
	byName map[string][]file // by the last element of that path

	mu      sync.Mutex
	modules map[string]func() map[string]instrumentation.Wrapper // by directory in Go, otherwise by file
	files   int                                                  // of the modules
}

func newWrappers(r *run) *wrappers {
	w := &wrappers{run: r, byPath: map[string][]file{}, byName: map[string][]file{}, modules: map[string]func() map[string]instrumentation.Wrapper{}}
	for _, f := range r.files {
		if f.language != syntax.Unknown && f.language != syntax.Go {
			module := modulePath(f.path)
			w.byPath[module] = append(w.byPath[module], f)
			w.byName[path.Base(module)] = append(w.byName[path.Base(module)], f)
		}
	}
	return w
}

// modulePath returns the path of the module in a file: "src/tracing" for src/tracing.py and src/tracing/index.ts.
func modulePath(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	return strings.TrimSuffix(strings.TrimSuffix(name, "/index"), "/__init__")
}

// Wrapper looks up a function, or a method of a class.
func (p packages) Wrapper(module, class, name string) (instrumentation.Wrapper, bool) {
	if p.language == syntax.Go {
		dir := p.dir
		if module != "" {
			var ok bool
			if dir, ok = p.resolve(p.dir, module); !ok {
				return instrumentation.Wrapper{}, false
			}
		}
		w, ok := p.wrappers.load(dir, syntax.Go, p.files[dir][:min(len(p.files[dir]), maxPackageFiles)])[name]
		return w, ok
	}
	f, ok := p.fileOf(module, class)
	if !ok {
		return instrumentation.Wrapper{}, false
	}
	w, ok := p.wrappers.load(f.path, f.language, []string{f.path})[name]
	return w, ok
}

// fileOf returns the file that may declare the functions of a module or class, in languages other than Go.
func (p packages) fileOf(module, class string) (f file, ok bool) {
	switch p.language {
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
			f, ok = p.wrappers.find(path.Join(where, class), module != name)
		}
		if !ok {
			f, ok = p.wrappers.find(where, module != name)
		}
		return f, ok
	case syntax.JavaScript, syntax.TypeScript:
		if !strings.HasPrefix(module, ".") {
			return file{}, false
		}
		where := path.Join(p.dir, module)
		for _, ext := range []string{".js", ".mjs", ".cjs"} { // of TypeScript as well
			where = strings.TrimSuffix(where, ext)
		}
		return p.wrappers.find(strings.TrimSuffix(where, "/index"), true)
	}
	return file{}, false
}

// find returns the file of a module in languages other than Go, by its path without the extension, or by the end of the
// path. It returns none if there are several, or very many with the name of the module.
func (w *wrappers) find(where string, exact bool) (found file, ok bool) {
	if exact {
		if all := w.byPath[where]; len(all) == 1 {
			return all[0], true
		}
		return file{}, false
	}
	all := w.byName[path.Base(where)]
	if len(all) > maxNamesakes {
		return file{}, false
	}
	for _, f := range all {
		if module := modulePath(f.path); module == where || strings.HasSuffix(module, "/"+where) {
			if ok {
				return file{}, false
			}
			found, ok = f, true
		}
	}
	return found, ok
}

// load returns the wrappers in the files of a module.
func (w *wrappers) load(module string, language syntax.Language, files []string) map[string]instrumentation.Wrapper {
	w.mu.Lock()
	once, ok := w.modules[module]
	if !ok && w.files+len(files) <= maxWrapperFiles {
		once = sync.OnceValue(func() map[string]instrumentation.Wrapper {
			all := map[string]instrumentation.Wrapper{}
			for _, name := range slices.Backward(files) { // the first declaration counts
				maps.Copy(all, w.read(file{path: name, language: language}))
			}
			return all
		})
		w.modules[module], w.files = once, w.files+len(files)
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
