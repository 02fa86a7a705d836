// SPDX-License-Identifier: Apache-2.0

// Package verify verifies changes of repositories. It runs the tests of a repository before and after a change,
// evaluates the telemetry that the tests send, and compares the results.
//
// The tests run in a container of package sandbox without network, since their code is untrusted. The container has a
// copy of the repository, the toolchains of this machine, and an OTLP receiver on ports 4317 (gRPC) and 4318 (HTTP) of
// its loopback interface. The OTEL_* variables configure the HTTP port (environment.go). The receiver is the receiver
// of the server (package receive) with its own limits, and the evaluation is the same as in `assay score` (package
// offline). On a machine without containers, no code runs and the result is unverified.
//
// A repository can fake its own result, since its tests are not trusted. A result reports the behavior of the tests,
// and the tests have no effect other than their result.
package verify
