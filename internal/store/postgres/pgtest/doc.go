// SPDX-License-Identifier: Apache-2.0

// Package pgtest runs real, private PostgreSQL servers for tests, benchmarks and fault
// drills.
//
// A server keeps its files in a temporary directory, is stopped by its process id, and
// ends with the process that started it, even if that is killed. The programs are those
// on the PATH, or the newest below /usr/lib/postgresql, the location of Debian and
// Ubuntu. They refuse to run as root. If root starts them, they run as the user postgres,
// or as the user "nobody" if the system has no such user.
//
// One server is enough for the tests of a package, with a database for each test:
//
//	var server *pgtest.Server
//
//	func TestMain(m *testing.M) {
//		goleak.VerifyTestMain(pgtest.With(m, pgtest.Config{}, &server))
//	}
package pgtest
