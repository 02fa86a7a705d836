// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"assay/internal/assaytest"
)

// TestKeyOnATerminal checks that a server started in a terminal prints the key and writes it to no file.
func TestKeyOnATerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err, "the test needs pseudo-terminals")
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer terminal.Close()

	dir := t.TempDir()
	d, err := assaytest.Start(t.Context(), assaytest.Config{Dir: dir, Stdout: terminal})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	line, err := bufio.NewReader(master).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^API key of the organization default, shown this once: `+printedKey.String()+`\r\n$`, line)
	require.NoFileExists(t, filepath.Join(dir, bootstrapKeyFile))
	require.NoError(t, d.Stop())
}
