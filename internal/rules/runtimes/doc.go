// SPDX-License-Identifier: Apache-2.0

// Package runtimes holds the versions of a language runtime that each OpenTelemetry SDK
// release supports (rule SDK-001).
//
// The facts are the published requirements of the SDKs, in table.go. The table leaves out
// languages without a requirement that is comparable with process.runtime.version: cpp,
// rust and swift, which are compiled and report no runtime version; erlang, which reports
// the version of the emulator but requires a version of OTP; and webjs, whose runtime is
// the browser.
package runtimes
