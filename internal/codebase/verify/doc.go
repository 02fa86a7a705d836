// SPDX-License-Identifier: Apache-2.0

// Package verify proves changes of repositories. It runs the tests of a repository before and after a change, evaluates
// the telemetry that the tests send, and compares.
//
// The tests run in a container of package sandbox, without network: their code is hostile. The container sees a copy of
// the repository, the toolchains of this machine, and an OTLP receiver on ports 4317 (gRPC) and 4318 (HTTP) of its
// loopback interface. The OTEL_* variables name the latter (environment.go). The receiver is the server's (package
// receive) with limits of its own, and the evaluation is that of `assay score` (package offline). Where no container
// works, no code runs and the result is unverified.
//
// The tests of a repository are not trusted to be right: a repository can fake its own result. A result says what the
// tests showed, and nothing that they show has an effect outside of the result.
package verify
