// SPDX-License-Identifier: Apache-2.0

package gittree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// attributes take precedence over the repository's: git writes files as they are stored. Keywords and encodings would make
// them many times larger than the sizes that Check counts, and line ends others than those that a change is made of.
const attributes = "* -text -ident -filter !working-tree-encoding\n"

// WriteAttributes has the repository with a git directory write files as they are stored, whatever the attributes of a
// tree say.
func WriteAttributes(gitDir string) error {
	info := filepath.Join(gitDir, "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(info, "attributes"), []byte(attributes), 0o600)
}

// LimitError reports that a tree exceeds a limit.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

var errTree = errors.New("the output of ls-tree is malformed")

// List are the arguments of git, before the tree, whose output Check reads.
var List = []string{"ls-tree", "-r", "-t", "-l", "-z", "--full-tree"}

// Check reads the output of [List]. Write returns a *LimitError when the files or the directories exceed the limits: a
// file may be in two thousand directories, and a tree of a few objects has any number of directories without a file.
type Check struct {
	Files int   // limit of the files, and of the directories
	Bytes int64 // limit of the files as they are stored

	record      []byte
	files       int
	directories int
	bytes       int64
}

const maxRecord = 8 << 10 // bytes of a line of ls-tree: a path that no file system takes is longer

// Write implements io.Writer.
func (c *Check) Write(p []byte) (int, error) {
	for i, b := range p {
		if b != 0 {
			if len(c.record) == maxRecord {
				return i, &LimitError{"the repository has file names that are too long"}
			}
			c.record = append(c.record, b)
			continue
		}
		if err := c.add(string(c.record)); err != nil {
			return i, err
		}
		c.record = c.record[:0]
	}
	return len(p), nil
}

// add counts a file or a directory: mode, type, object and size, a tab, the path.
func (c *Check) add(record string) error {
	head, _, ok := strings.Cut(record, "\t")
	fields := strings.Fields(head)
	if !ok || len(fields) != 4 {
		return errTree
	}
	if fields[1] == "tree" {
		if c.directories++; c.directories > c.Files {
			return &LimitError{fmt.Sprintf("the repository has more than %d directories", c.Files)}
		}
		return nil
	}
	if c.files++; c.files > c.Files {
		return &LimitError{fmt.Sprintf("the repository has more than %d files", c.Files)}
	}
	if fields[1] != "blob" { // a submodule, which is not fetched
		return nil
	}
	size, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || size < 0 {
		return errTree
	}
	if c.bytes += size; c.bytes > c.Bytes || c.bytes < 0 {
		return &LimitError{fmt.Sprintf("the files of the repository have more than %d bytes", c.Bytes)}
	}
	return nil
}
