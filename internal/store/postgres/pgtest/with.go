// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgtest

import (
	"fmt"
	"os"
)

// Tests is a *testing.M.
type Tests interface{ Run() int }

// With returns m with a server: Run starts the server before the tests and closes it
// after them. It stores the server in s.
func With(m Tests, c Config, s **Server) Tests { return around{m, c, s} }

type around struct {
	tests  Tests
	config Config
	server **Server
}

// Run implements Tests.
func (a around) Run() int {
	s, err := Start(a.config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*a.server = s
	code := a.tests.Run()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
