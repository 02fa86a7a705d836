// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/lists"
	"assay/internal/review/syntax"
)

// Limits of a walk.
const (
	maxFiles    = 100_000   // files to read
	maxEntries  = 1_000_000 // entries of directories, skipped ones included
	maxDepth    = 256       // directories within directories
	maxPath     = 4096      // bytes of a path
	maxPatterns = 5_000     // patterns of all .gitignore files that apply to one directory
	maxIgnore   = 256 << 10 // bytes of a .gitignore file
	maxMatching = 1 << 30   // steps for the patterns of all .gitignore files, and as many for the patterns of the settings
	maxFileSize = 512 << 10
)

// file is a file to read.
type file struct {
	path     string // below the root, with slashes
	language syntax.Language
}

// walk lists the files to read.
type walk struct {
	root    *os.Root
	extra   []pattern // of the settings
	match   struct{ files, extra matcher }
	files   []file
	skipped map[string]int // by reason
	entries int
	tests   bool // list tests, documentation, examples and fixtures as well
	note    func(file, message string)
}

// errLimit ends a walk that has reached a limit. The walk has reported the limit with note.
var errLimit = errors.New("limit reached")

func newWalk(root *os.Root, ignore []string, note func(file, message string)) *walk {
	w := &walk{root: root, extra: parseIgnore(strings.Join(ignore, "\n"), "", ""), skipped: map[string]int{}, note: note}
	w.match.files.left, w.match.extra.left = maxMatching, maxMatching
	return w
}

// list walks the paths and sorts the files by path. It returns an error for a path that cannot be read.
func (w *walk) list(ctx context.Context, paths []string) error {
	for _, p := range paths {
		info, err := w.root.Lstat(filepath.FromSlash(p))
		switch {
		case err != nil:
			return err
		case info.IsDir():
			err = w.directory(ctx, p, above(w.root.Name(), p), "", 0)
		case info.Mode().IsRegular():
			err = w.file(p, info.Size(), skipInside(p))
		default:
			err = fmt.Errorf("%s is neither a directory nor a regular file", p)
		}
		if err != nil && !errors.Is(err, errLimit) {
			return err
		}
	}
	if w.match.files.left <= 0 || w.match.extra.left <= 0 {
		w.note("", "the patterns of files to ignore take too long: they do not apply to all files")
	}
	slices.SortFunc(w.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	w.files = slices.Compact(w.files)
	return nil
}

// ListFiles returns the sorted paths of the files that a review reads. With tests, it includes tests, documentation,
// examples and fixtures.
func ListFiles(ctx context.Context, root *os.Root, ignore []string, tests bool) ([]string, error) {
	w := newWalk(root, ignore, func(string, string) {})
	w.tests = tests
	if err := w.list(ctx, []string{"."}); err != nil {
		return nil, err
	}
	return lists.Map(w.files, func(f file) string { return f.path }), nil
}

// Skipped returns why a review does not read a file with this path and text, or "".
func Skipped(name string, text []byte) string {
	return cmp.Or(skipInside(name), skipName(name), skipContent(syntax.LanguageOf(name), text))
}

// skipInside returns why the files in a directory of a path are not reviewed, or "".
func skipInside(name string) string {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if reason := skipDirectory(dir); reason != "" {
			return reason
		}
	}
	return ""
}

// directory walks a directory. reason is why its files are skipped, "" if they are not.
func (w *walk) directory(ctx context.Context, dir string, patterns []pattern, reason string, depth int) error {
	if depth > maxDepth || len(dir) > maxPath {
		w.note(dir, "directory is nested too deeply")
		return nil
	}
	entries, err := w.read(ctx, dir)
	if err != nil {
		if errors.Is(err, errLimit) || ctx.Err() != nil || depth == 0 {
			return err
		}
		w.note(dir, "cannot read the directory: "+cause(err))
		return nil
	}
	if reason == "" && w.match.files.left > 0 && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" && e.Type().IsRegular() }) {
		patterns = w.patterns(dir, patterns)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, e.Name())
		if w.match.files.ignored(patterns, name, e.IsDir()) {
			continue
		}
		excluded := reason
		if w.match.extra.ignored(w.extra, name, e.IsDir()) {
			excluded = skipIgnored
		}
		switch {
		case e.IsDir():
			if n := e.Name(); n == ".git" || n == ".hg" || n == ".svn" {
				continue
			}
			if excluded == "" {
				excluded = skipDirectory(name)
			}
			if err := w.directory(ctx, name, patterns, excluded, depth+1); err != nil {
				return err
			}
		case e.Type().IsRegular():
			var size int64
			if info, err := e.Info(); err == nil {
				size = info.Size()
			}
			if err := w.file(name, size, excluded); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the entries of a directory, sorted by name.
func (w *walk) read(ctx context.Context, dir string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []fs.DirEntry
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some, err := f.ReadDir(1000)
		entries = append(entries, some...)
		if w.entries += len(some); w.entries > maxEntries {
			w.note("", fmt.Sprintf("more than %d files and directories: the remaining files are not read", maxEntries))
			return nil, errLimit
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// file adds a file to read, or counts it as skipped.
func (w *walk) file(name string, size int64, reason string) error {
	switch {
	case reason != "":
	case len(name) > maxPath:
		reason = skipOther
	default:
		reason = skipName(name)
	}
	if w.tests && reason == skipTest {
		reason = ""
	}
	switch {
	case reason != "":
	case !utf8.ValidString(name): // JSON would change the name, possibly to that of another file
		reason = skipEncoding
	case size > maxFileSize:
		reason = skipLarge
	}
	if reason != "" {
		w.skipped[reason]++
		return nil
	}
	if len(w.files) >= maxFiles {
		w.note("", fmt.Sprintf("more than %d files: the remaining files are not read", maxFiles))
		return errLimit
	}
	w.files = append(w.files, file{path: name, language: syntax.LanguageOf(name)})
	return nil
}

// patterns returns the patterns that apply below a directory with a .gitignore file.
func (w *walk) patterns(dir string, outer []pattern) []pattern {
	name := path.Join(dir, ".gitignore")
	text, err := readFile(w.root, name, maxIgnore)
	if err != nil {
		w.note(name, "cannot read the file: "+cause(err))
		return outer
	}
	base := dir
	if base == "." {
		base = ""
	}
	w.match.files.left -= len(text) + len(outer)
	all := append(slices.Clip(outer), parseIgnore(string(text), base, "")...)
	if len(all) > maxPatterns {
		w.note(name, fmt.Sprintf("more than %d patterns: the remaining patterns do not apply", maxPatterns))
		all = all[:maxPatterns]
	}
	return all
}

// above returns the patterns of the .gitignore files above a directory, up to the top of its Git work tree. It returns
// nil outside of a work tree.
func above(root, dir string) []pattern {
	at, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(dir)))
	if err != nil {
		return nil
	}
	var patterns []pattern
	rest := ""
	for range maxDepth {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return patterns
		}
		parent := filepath.Dir(at)
		if parent == at {
			return nil
		}
		rest, at = path.Join(filepath.Base(at), rest), parent
		if info, err := os.Lstat(filepath.Join(at, ".gitignore")); err == nil && info.Mode().IsRegular() && info.Size() <= maxIgnore {
			if text, err := os.ReadFile(filepath.Join(at, ".gitignore")); err == nil {
				p := parseIgnore(string(text), dir, rest)
				patterns = append(p, patterns...)
			}
		}
	}
	return nil
}

// errTooLarge is the error of a file that is larger than a limit.
var errTooLarge = errors.New("the file is too large")

// readFile reads a regular file of at most limit bytes below a root.
func readFile(root *os.Root, name string, limit int) ([]byte, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(text) > limit {
		return nil, errTooLarge
	}
	return text, err
}

// cause returns the message of an error without the path, which the report already contains.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
