// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Main does nothing on this system: limits are not supported.
func Main() {}

// command returns the child for a program, without limits and isolation.
func command(ctx context.Context, c *Command, _ bool) (*exec.Cmd, error) {
	return exec.CommandContext(ctx, c.Path, c.Args...), nil
}

// yield does nothing on this system.
func yield(<-chan struct{}, *os.Process) {}

// Run reports that containers need Linux.
func (c *Container) Run(context.Context) (Exit, error) {
	return Exit{}, fmt.Errorf("%w: it needs Linux", ErrUnavailable)
}
