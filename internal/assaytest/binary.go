// SPDX-License-Identifier: Apache-2.0

package assaytest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// The environment variables that hold the paths of the programs under test. The Makefile
// builds the programs and sets the variables.
const (
	BinaryEnv       = "ASSAY_BINARY"
	FaultsBinaryEnv = "ASSAY_FAULTS_BINARY"
)

// Binary returns the absolute path of the program: the value of BinaryEnv, or without one
// bin/assay-test, which the first call of a process builds.
var Binary = sync.OnceValues(func() (string, error) { return find(BinaryEnv, "") })

// FaultsBinary is Binary for the program built with the tag faults, whose clock and file
// sizes a test controls.
var FaultsBinary = sync.OnceValues(func() (string, error) { return find(FaultsBinaryEnv, "faults") })

func find(variable, tag string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("%s: not an absolute path: %q", variable, path)
		}
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "assay-test")
	if tag != "" {
		path += "-" + tag
	}
	// The flags equal the ones of `make build`, so that both share the build cache. Test
	// processes may build at the same time, and one may run a file that another one replaces.
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(own)
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-tags", tag, "-o", own, "./cmd/assay")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, os.Rename(own, path)
}

// Root returns the root directory of the module, which holds the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module assay\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("find the module: the working directory is outside of it")
		}
		dir = up
	}
}
