// SPDX-License-Identifier: Apache-2.0

package instrument

// The versions that a change adds, as the registries served them in November 2026.
const (
	goOTel = "v1.47.0" // needs Go 1.26
	// Modules of the same release that are not stable.
	goOTelLog        = "v0.23.0" // exporters of logs
	goOTelPrometheus = "v0.69.0"

	goContrib = "v0.72.0" // the same release
	goOTelGin = "v0.71.0" // otelgin has no version of this release
	goSQL     = "v0.44.0" // github.com/XSAM/otelsql

	// Other instrumentation. The modules for echo, mux and mongo-driver have no version of the release of goContrib.
	goOTelEcho    = "v0.71.0"
	goOTelMux     = "v0.71.0"
	goOTelMongo   = "v0.71.0"
	goOTelPgx     = "v0.13.0"
	goGormOTel    = "v0.1.16"
	goOTelConnect = "v0.12.0"
	goFranzOTel   = "v1.7.1"

	goRelease  = "1.26.0"
	nodeAPI    = "^1.10.0" // @opentelemetry/api
	nodeAuto   = "^0.82.0" // @opentelemetry/auto-instrumentations-node, needs Node.js 22.15
	nodeAPI20  = "^1.9.1"  // for Node.js 18.19 and 20.6: the core of nodeAuto20 needs an API before 1.10.0
	nodeAuto20 = "^0.80.0"

	// Versions of nodeHooks that nodeAuto and nodeAuto20 require: the hooks and the instrumentation must share one
	// copy.
	nodeHooksVersion = "^0.300.0"
	nodeHooks20      = "^0.222.0"

	javaAgent = "2.28.1"
	javaAPI   = "1.62.0" // io.opentelemetry:opentelemetry-api, which this agent contains
)
