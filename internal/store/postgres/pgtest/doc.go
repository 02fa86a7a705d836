// SPDX-License-Identifier: Apache-2.0

// Package pgtest runs real, private PostgreSQL servers: for tests, benchmarks and
// fault drills.
//
// A server keeps everything in a temporary directory, is told to stop by its own
// process id, and ends with the process that started it, even one that is killed.
// The programs are those on the PATH, or the newest below /usr/lib/postgresql,
// where Debian and Ubuntu put them. They refuse to run as root: when root starts
// them, they run as the user postgres, or nobody where there is none.
//
// One server is enough for the tests of a package, with a database for each test:
//
//	var server *pgtest.Server
//
//	func TestMain(m *testing.M) {
//		goleak.VerifyTestMain(pgtest.With(m, pgtest.Config{}, &server))
//	}
package pgtest
