// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// unspecified is the deployment environment of a process without a configured one.
const unspecified = "unspecified"

// newResource returns the resource of this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take
// precedence. The resource is valid even if the error is not nil.
//
// Addresses, command lines and descriptions are omitted: they are long, may hold sensitive data, and would be
// part of the identity of every series (MET-007).
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
		resource.WithHost(), // hostname
		resource.WithFromEnv(),
	)
	if err != nil {
		err = fmt.Errorf("describe this process: %w", err)
	}
	return r, err
}
