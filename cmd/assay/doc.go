// SPDX-License-Identifier: Apache-2.0

// Command assay evaluates OpenTelemetry data by the Instrumentation Score rules: as a server that receives OTLP, and
// offline on recorded files. It reviews the source code that produces the data.
//
// Only this package reads flags, environment variables and configuration files, and connects the other packages. Every
// command is a struct of flags with a Run method, in the file of its name.
//
// Exit codes: 0 success; 1 failure, or a condition of score or review (--min-score, --fail-on) is not met; 2 invalid
// usage or configuration, or score or review cannot read its input.
package main
