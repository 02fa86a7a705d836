// SPDX-License-Identifier: Apache-2.0

package check

// goFile returns a Go file with the imports that examples share on three lines, and a body.
func goFile(body string) string {
	return `package shop; import ("context"; "database/sql"; "fmt"; "log/slog"; "net/http"; "os")
import ("go.opentelemetry.io/otel"; "go.opentelemetry.io/otel/attribute"; "go.opentelemetry.io/otel/codes"; "go.opentelemetry.io/otel/metric"; "go.opentelemetry.io/otel/sdk/resource"; "go.opentelemetry.io/otel/trace")
var tracer, meter = otel.Tracer("shop"), otel.Meter("shop")
` + body
}
