// SPDX-License-Identifier: Apache-2.0

// Package runtimes knows which versions of a language runtime each
// OpenTelemetry SDK release supports (rule SDK-001).
//
// The facts are the SDKs' own published requirements, kept as data in
// table.go. Languages whose SDK publishes no requirement that can be compared
// with process.runtime.version are left out: cpp, rust and swift, which are
// compiled and report no runtime version; erlang, which reports the version of
// the emulator but requires a version of OTP; and webjs, where the runtime is
// the browser.
package runtimes
