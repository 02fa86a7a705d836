// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
)

// ErrUnavailable reports that this machine cannot isolate a container. No code of the repository has run.
var ErrUnavailable = errors.New("no sandbox is available")

// Paths in a container.
const (
	tempDir   = "/tmp" // the only directory in which a container may store files, besides /dev/shm; also /var/tmp
	SourceDir = tempDir + "/src"
	HomeDir   = tempDir + "/home"
	Program   = "/run/assay" // this program
)

// Container is a shell script that may run hostile code, such as the tests of a repository. It has namespaces of its
// own for users, processes, mounts, the network, IPC and the host name. It sees the system's programs and libraries,
// the directories ReadOnly and a copy of a tree, and none of this machine's other files, processes and networks. It
// runs without capabilities, as an unprivileged user, also if this process is privileged. All its processes have ended
// when Run returns.
//
// The script runs once for each tree. Its processes end and its files are removed in between, except those in HomeDir,
// where tools have their caches.
type Container struct {
	Script   string   // for /bin/sh, in SourceDir
	Env      []string // the whole environment, besides HOME and TMPDIR
	Trees    []fs.FS  // copied to SourceDir: directories, files and links; default: one empty tree
	ReadOnly []string // absolute directories that the script may read, at the same paths

	// Memory limits the bytes of all processes together, with the buffers of their sockets and pipes, without files.
	// The script also ends when the machine has almost no memory left: a sixteenth of it, or 512 MiB if that is less.
	Memory    int64
	Disk      int64 // bytes of all files, which are in memory
	Processes int   // and threads
	objects   int64 // bytes of the kernel's objects that other programs may add; default half of Memory, at least 512 MiB
	watches   int64 // bytes of the kernel's objects that end the script, whichever program adds them; default watchMemory

	// Ports are TCP ports of the container's loopback interface. Serve, if set, gets their listeners before each start of
	// the script. It must not block. A port whose listener is closed refuses connections.
	Ports []int
	Serve func([]net.Listener)

	// Ended, if set, is called after each end of the script. It has to close the listeners, unless Run returns an error.
	// The script runs with the next tree if it returns true.
	Ended func(Exit) bool

	Output io.Writer // receives standard output and standard error, at most 128 MiB of a script
}

// Exit is how a container ended.
type Exit struct {
	Code   int    `json:"code"`             // of the script; 128 and the signal if one has ended it
	Limit  string `json:"limit,omitempty"`  // the limit that has ended it, or ""
	Failed string `json:"failed,omitempty"` // why the script was not started, or ""
}

// writeTree writes a tree, or none, as a tar archive, without the directory .git, devices, pipes and sockets.
func writeTree(w io.Writer, tree fs.FS) error {
	archive := tar.NewWriter(w)
	if tree == nil {
		return archive.Close()
	}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() && path.Base(name) == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm())}
		switch info.Mode().Type() {
		case fs.ModeDir:
			h.Typeflag = tar.TypeDir
			return archive.WriteHeader(h)
		case fs.ModeSymlink:
			if h.Linkname, err = fs.ReadLink(tree, name); err != nil {
				return err
			}
			h.Typeflag = tar.TypeSymlink
			return archive.WriteHeader(h)
		case 0:
			return writeFile(archive, h, tree, info.Size())
		}
		return nil
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func writeFile(archive *tar.Writer, h *tar.Header, tree fs.FS, size int64) error {
	f, err := tree.Open(h.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, size
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(archive, f, size)
	return err
}

// Available reports why this machine cannot run the container, or nil if it can. The script has to succeed.
func (c *Container) Available(ctx context.Context) error {
	exit, err := c.Run(ctx)
	if err == nil && exit.Code != 0 {
		return fmt.Errorf("%w: exit code %d", ErrUnavailable, exit.Code)
	}
	return err
}
