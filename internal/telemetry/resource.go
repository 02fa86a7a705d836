// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// unspecified is the environment of a process that nobody has told where it runs.
const unspecified = "unspecified"

// newResource returns what this process is. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES have the last word. The resource can be used also when
// there is an error.
//
// Addresses, command lines and descriptions in prose are left out: they are large,
// may hold what should not be seen, and would be part of the identity of every
// series (MET-007).
func newResource(ctx context.Context, version string) (*resource.Resource, error) {
	r, err := resource.New(ctx,
		resource.WithAttributes(
			semconv.ServiceName("assay"),
			semconv.ServiceVersion(version),
			semconv.ServiceInstanceID(uuid.NewString()),
			semconv.DeploymentEnvironmentNameKey.String(unspecified),
		),
		resource.WithTelemetrySDK(),
		resource.WithProcessRuntimeName(),
		resource.WithProcessRuntimeVersion(),
		resource.WithOSType(),
		resource.WithHost(), // its name
		resource.WithFromEnv(),
	)
	if err != nil {
		err = fmt.Errorf("describe this process: %w", err)
	}
	return r, err
}
