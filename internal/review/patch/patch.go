// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// MaxFile is the maximum size in bytes of a file that a patch changes. Reviews do not read larger files.
const MaxFile = 512 << 10

// Patch is a change that is not applied yet.
type Patch struct {
	Files []File `json:"files"`           // in the order of their paths
	Steps []Step `json:"steps,omitempty"` // in the order of files and lines
}

// Step is one part of a change, or a task that a change leaves to people.
type Step struct {
	File string `json:"file"`           // below the root, with slashes; "" if it is about the repository
	Line int    `json:"line,omitempty"` // before the change, from 1; 0 if it is about the file
	Text string `json:"text"`           // describes the change, or the task and its reason
	Open bool   `json:"open,omitempty"` // left to people
	// Boundary is set in an open step that a language model may take.
	Boundary Boundary `json:"boundary,omitzero"`
}

// Boundary is code at the line of a step where a service receives or sends, and that has no telemetry.
type Boundary struct {
	SpanKind string `json:"span_kind"` // of the missing spans: server, client, consumer, producer, internal
	Library  string `json:"library"`   // as in instrumentation.Boundary
}

// File is a file before and after a change.
type File struct {
	Path    string       `json:"path"` // below the root, with slashes
	Before  []byte       `json:"-"`
	After   []byte       `json:"after"`
	Edits   []udiff.Edit `json:"-"` // sorted, without overlaps
	Created bool         `json:"created,omitempty"`
}

// Create returns a new file.
func Create(path string, text []byte) File {
	return File{Path: path, After: text, Edits: []udiff.Edit{{New: string(text)}}, Created: true}
}

// Apply sorts the edits and sets After from them.
func (f *File) Apply() (err error) {
	udiff.SortEdits(f.Edits)
	if f.After, err = udiff.ApplyBytes(f.Before, f.Edits); err != nil {
		return fmt.Errorf("change %s: %w", f.Path, err)
	}
	return nil
}

// Sort sorts files and steps.
func (p *Patch) Sort() {
	slices.SortFunc(p.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
}

// Diff writes the patch as a unified diff that `git apply` and `patch -p1` take.
func (p *Patch) Diff(w io.Writer) error {
	for _, f := range p.Files {
		from := quoted("a/" + f.Path)
		if f.Created {
			from = "/dev/null"
		}
		text, err := udiff.ToUnified(from, quoted("b/"+f.Path), string(f.Before), wholeLines(f.Before, f.Edits), udiff.DefaultContextLines)
		if err != nil {
			return fmt.Errorf("diff of %s: %w", f.Path, err)
		}
		if _, err := io.WriteString(w, renumber(text)); err != nil {
			return err
		}
	}
	return nil
}

// wholeLines returns sorted edits, with insertions of lines at the end of a line moved to the start of the next line.
// Otherwise a diff would show the line before as changed.
func wholeLines(before []byte, edits []udiff.Edit) []udiff.Edit {
	edits = slices.Clone(edits)
	for i := range edits {
		e := &edits[i]
		for _, end := range []string{"\n", "\r\n"} {
			if e.Start == e.End && strings.HasPrefix(e.New, end) && bytes.HasPrefix(before[e.Start:], []byte(end)) && (i+1 == len(edits) || edits[i+1].Start >= e.Start+len(end)) {
				e.Start, e.End, e.New = e.Start+len(end), e.Start+len(end), e.New[len(end):]+end
				break
			}
		}
	}
	return edits
}

var hunkHeader = regexp.MustCompile(`(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// renumber corrects the line numbers of the new file in the hunk headers of a diff. udiff does not count the unchanged
// lines between the edits of a hunk, so the numbers of later hunks are too low, and `git apply` may find repeated lines
// there.
func renumber(diff string) string {
	added := 0
	return hunkHeader.ReplaceAllStringFunc(diff, func(header string) string {
		m := hunkHeader.FindStringSubmatch(header)
		from, olds, to, news := number(m[1]), lines(m[2]), number(m[3]), lines(m[4])
		if from > 0 && to > 0 {
			to = from + added
		}
		added += news - olds
		return strings.Replace(header, "+"+m[3], "+"+strconv.Itoa(to), 1)
	})
}

// lines returns the number of lines in a hunk header, which leaves out the number 1.
func lines(digits string) int {
	if digits == "" {
		return 1
	}
	return number(digits)
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// quoted returns a name as Git writes it in a patch. A name with control characters, quotes or backslashes, which could
// end the name or the line, is in quotes.
func quoted(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Restore returns the patch whose Diff is given. Its files must have the content from before the patch.
func Restore(root *os.Root, diff []byte) (p *Patch, err error) {
	p = new(Patch)
	var r *restored
	created := false
	for line := range bytes.Lines(diff) {
		switch {
		case (r == nil || r.olds+r.news == 0) && bytes.HasPrefix(line, []byte("--- ")):
			r.end(p)
			r, created = nil, string(line) == "--- /dev/null\n"
		case r == nil:
			r, err = restore(root, strings.TrimSuffix(string(line), "\n"), created)
		default:
			err = r.add(line)
		}
		if err != nil {
			return nil, fmt.Errorf("restore a patch: %w", err)
		}
	}
	r.end(p)
	return p, nil
}

// restored is a file of a diff while it is read.
type restored struct {
	File
	left       [][]byte // remaining lines of Before
	number     int      // line number of the first of left
	olds, news int      // remaining old and new lines of the hunk
	kind       byte     // first byte of the last line
}

// restore starts the file that the second line of a header names.
func restore(root *os.Root, header string, created bool) (_ *restored, err error) {
	name := strings.TrimPrefix(header, "+++ ")
	if strings.HasPrefix(name, `"`) {
		if name, err = strconv.Unquote(name); err != nil {
			return nil, err
		}
	}
	r := &restored{File: File{Path: strings.TrimPrefix(name, "b/"), Created: created}, number: 1}
	if !created {
		r.Before, err = Read(root, r.Path)
	} else if _, err = root.Lstat(filepath.FromSlash(r.Path)); err == nil {
		err = &fs.PathError{Op: "create", Path: r.Path, Err: fs.ErrExist}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	r.left = bytes.SplitAfter(r.Before, []byte("\n"))
	return r, err
}

// add adds a line of a hunk, or its header.
func (r *restored) add(line []byte) error {
	kind := line[0]
	if kind == '\\' { // no newline at the end of the line before
		if r.kind != '-' {
			r.After = bytes.TrimSuffix(r.After, []byte("\n"))
		}
		return nil
	}
	r.kind = kind
	if r.olds+r.news == 0 {
		m := hunkHeader.FindStringSubmatch(string(line))
		if m == nil {
			return errors.New("no header of a hunk")
		}
		from := number(m[1])
		r.olds, r.news = lines(m[2]), lines(m[4])
		if from > 0 && (from < r.number || from-r.number > len(r.left)) {
			return errors.New("a hunk is outside of the file")
		}
		r.take(max(from-r.number, 0))
		return nil
	}
	switch kind {
	case '+':
		r.After = append(r.After, line[1:]...)
		r.news--
	case ' ', '-':
		if len(r.left) == 0 || strings.TrimSuffix(string(r.left[0]), "\n") != strings.TrimSuffix(string(line[1:]), "\n") {
			return errors.New("the file has changed meanwhile")
		}
		r.olds--
		if kind == '-' {
			r.left, r.number = r.left[1:], r.number+1
			break
		}
		r.news--
		r.take(1)
	}
	return nil
}

// take copies n lines unchanged.
func (r *restored) take(n int) {
	for _, line := range r.left[:n] {
		r.After = append(r.After, line...)
	}
	r.left, r.number = r.left[n:], r.number+n
}

// end completes the file and adds it to a patch.
func (r *restored) end(p *Patch) {
	if r == nil {
		return
	}
	r.take(len(r.left))
	r.Edits = udiff.Lines(string(r.Before), string(r.After))
	p.Files = append(p.Files, r.File)
}

// Check returns an error if a file cannot be written: a file that the patch changes has other content than when the
// patch was made, or a file that it creates exists, even where a review does not look.
func (p *Patch) Check(root *os.Root) error {
	for _, f := range p.Files {
		if err := f.check(root); err != nil {
			return fmt.Errorf("change %s: %w", f.Path, err)
		}
	}
	return nil
}

func (f *File) check(root *os.Root) error {
	if !f.Created {
		now, err := Read(root, f.Path)
		if err == nil && string(now) != string(f.Before) {
			err = errors.New("the file has changed meanwhile")
		}
		return err
	}
	for i := range f.Path { // directories first
		if f.Path[i] != '/' {
			continue
		}
		dir := f.Path[:i]
		switch info, err := root.Lstat(filepath.FromSlash(dir)); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		}
	}
	_, err := root.Lstat(filepath.FromSlash(f.Path))
	switch {
	case err == nil:
		return fs.ErrExist
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// Apply checks the patch and writes its files. If a write fails, it undoes the others.
func (p *Patch) Apply(root *os.Root) (err error) {
	if err := p.Check(root); err != nil {
		return err
	}
	w := &writing{root: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.undone())
		}
	}()
	for _, f := range p.Files {
		if err := w.prepare(&f); err != nil {
			return fmt.Errorf("change %s: %w", f.Path, err)
		}
	}
	for _, r := range w.replacements {
		if err := w.replace(r); err != nil {
			return fmt.Errorf("change %s: %w", r.file.Path, err)
		}
	}
	return nil
}

// writing writes a patch in two steps. It first writes created files, and changed files under temporary names in their
// directories. Then it renames these.
type writing struct {
	root         *os.Root
	replacements []replacement
	undo         []func() error
}

// replacement is the new version of a file under a temporary name.
type replacement struct {
	file *File
	next string // the temporary name
	mode fs.FileMode
}

// undone removes written files and restores replaced ones.
func (w *writing) undone() (err error) {
	for _, f := range slices.Backward(w.undo) {
		err = errors.Join(err, f())
	}
	return err
}

// prepare writes a created file with its directories, or the replacement of a changed file.
func (w *writing) prepare(f *File) error {
	name := filepath.FromSlash(f.Path)
	if f.Created {
		for i := range f.Path {
			if f.Path[i] != '/' {
				continue
			}
			dir := filepath.FromSlash(f.Path[:i])
			switch err := w.root.Mkdir(dir, 0o755); {
			case err == nil:
				w.undo = append(w.undo, func() error { return w.root.Remove(dir) })
			case !errors.Is(err, fs.ErrExist):
				return err
			}
		}
		return w.write(name, f.After, 0o644)
	}
	info, err := w.root.Lstat(name)
	if err != nil {
		return err
	}
	r := replacement{file: f, mode: info.Mode().Perm()}
	r.next, err = w.beside(name, f.After, r.mode)
	w.replacements = append(w.replacements, r)
	return err
}

// replace renames a replacement to the name of its file.
func (w *writing) replace(r replacement) error {
	name := filepath.FromSlash(r.file.Path)
	if err := w.root.Rename(r.next, name); err != nil {
		return err
	}
	w.undo = append(w.undo, func() error {
		back, err := w.beside(name, r.file.Before, r.mode)
		if err == nil {
			err = w.root.Rename(back, name)
		}
		return err
	})
	return nil
}

// beside writes a file with a temporary name in the directory of another file, and returns the name.
func (w *writing) beside(name string, text []byte, mode fs.FileMode) (beside string, err error) {
	beside = filepath.Join(filepath.Dir(name), ".assay-"+rand.Text())
	if err := w.write(beside, text, mode); err != nil {
		return "", err
	}
	return beside, w.root.Chmod(beside, mode) // regardless of the umask
}

// write writes a file that does not exist.
func (w *writing) write(name string, text []byte, mode fs.FileMode) error {
	file, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	w.undo = append(w.undo, func() error {
		if err := w.root.Remove(name); !errors.Is(err, fs.ErrNotExist) { // it may have been renamed
			return err
		}
		return nil
	})
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// Read returns the content of a regular file of at most MaxFile bytes.
func Read(root *os.Root, path string) ([]byte, error) {
	name := filepath.FromSlash(path)
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if info.Size() > MaxFile {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("file too large")}
	}
	return root.ReadFile(name)
}
