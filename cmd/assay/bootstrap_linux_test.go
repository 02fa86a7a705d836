// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestKeyOnATerminal: a person who starts a server sees the key, and no file has it.
func TestKeyOnATerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer terminal.Close()

	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--data-dir", dir, "--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = terminal, io.Discard
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(master).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^API key of the organization default, shown this once: `+printedKey.String()+`\r\n$`, line)
	require.NoFileExists(t, filepath.Join(dir, bootstrapKeyFile))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}
