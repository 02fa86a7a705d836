// SPDX-License-Identifier: Apache-2.0

package check

// all lists the checks in the order of the documentation. A new check adds its line here.
var all = []*Check{
	spanNameDynamic,
	sensitiveAttribute,
	sensitiveLog,
	metricAttributeUnbounded,
	metricUnit,
	metricUnitConflict,
	metricNameUnit,
	metricNameAttribute,
	semconvDeprecated,
	attributeLevel,
	spanNotEnded,
	spanErrorUnrecorded,
	spanNoise,
	contextLost,
	logDebugProduction,
	resourceAttributes,
	resourceVolatile,
	sdkUnsupportedRuntime,
	sdkVersionMix,
	vendorInstrumentation,
	uninstrumentedServer,
	collectorConfig,
	secretInConfig,
}
