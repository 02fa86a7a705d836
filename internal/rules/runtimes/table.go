// SPDX-License-Identifier: Apache-2.0

package runtimes

// table holds the support rows by telemetry.sdk.language, stable releases
// only, oldest first. The last row of a major version reaches up to the next
// major version.
var table = map[string][]row{
	// The go directive in go.mod of go.opentelemetry.io/otel/sdk, read from the
	// Go module proxy for every release up to v1.47.0.
	"go": {
		{span{version{1, 0}, version{1, 3}}, []span{{low: version{1, 15}}}},
		{span{version{1, 3}, version{1, 8}}, []span{{low: version{1, 16}}}},
		{span{version{1, 8}, version{1, 11}}, []span{{low: version{1, 17}}}},
		{span{version{1, 11}, version{1, 15}}, []span{{low: version{1, 18}}}},
		{span{version{1, 15}, version{1, 18}}, []span{{low: version{1, 19}}}},
		{span{version{1, 18}, version{1, 25}}, []span{{low: version{1, 20}}}},
		{span{version{1, 25}, version{1, 30}}, []span{{low: version{1, 21}}}},
		{span{version{1, 30}, version{1, 36}}, []span{{low: version{1, 22}}}},
		{span{version{1, 36}, version{1, 39}}, []span{{low: version{1, 23}}}},
		{span{version{1, 39}, version{1, 42}}, []span{{low: version{1, 24}}}},
		{span{version{1, 42}, version{1, 47}}, []span{{low: version{1, 25}}}},
		{span{version{1, 47}, version{2}}, []span{{low: version{1, 26}}}},
	},
	// engines.node of @opentelemetry/core on npm, whose version is
	// telemetry.sdk.version, read up to 3.1.1.
	"nodejs": {
		{span{version{1, 0}, version{1, 2}}, []span{{low: version{8, 5}}}},
		{span{version{1, 2}, version{1, 4}}, []span{{low: version{8, 12}}}},
		{span{version{1, 4}, version{2}}, []span{{low: version{14}}}},
		// ^18.19.0 || >=20.6.0
		{span{version{2}, version{3}}, []span{{version{18, 19}, version{19}}, {low: version{20, 6}}}},
		{span{version{3}, version{4}}, []span{{low: version{22, 15}}}},
	},
	// Requires-Python of opentelemetry-sdk, up to 1.45; the releases that raised
	// it are in the project's CHANGELOG.md (#2763, #3668, #4520, #5076).
	"python": {
		{span{version{1, 0}, version{1, 13}}, []span{{low: version{3, 6}}}},
		{span{version{1, 13}, version{1, 23}}, []span{{low: version{3, 7}}}},
		{span{version{1, 23}, version{1, 33}}, []span{{low: version{3, 8}}}},
		{span{version{1, 33}, version{1, 42}}, []span{{low: version{3, 9}}}},
		{span{version{1, 42}, version{2}}, []span{{low: version{3, 10}}}},
	},
	// README.md, Requirements, and VERSIONING.md, Language version
	// compatibility, of opentelemetry-java, read up to 1.65.0: all published
	// artifacts support Java 8 or higher.
	"java": {
		{span{version{1, 0}, version{2}}, []span{{low: version{8}}}},
	},
	// The target frameworks of the NuGet package OpenTelemetry, read up to
	// 1.18.0, and the changes to them in CHANGELOG.md (#2138, #3190) and
	// RELEASENOTES.md (#5832). Up to
	// 1.9 .NET and .NET Core came in through .NET Standard 2.0; 1.10 dropped
	// .NET 6, and with it everything before .NET 8. Versions 4.x are those of
	// the .NET Framework, which keeps a requirement of its own.
	"dotnet": {
		{span{version{1, 0}, version{1, 2}}, []span{{version{2}, version{4}}, {low: version{4, 5, 2}}}},
		{span{version{1, 2}, version{1, 3}}, []span{{version{2}, version{4}}, {low: version{4, 6, 1}}}},
		{span{version{1, 3}, version{1, 10}}, []span{{version{2}, version{4}}, {low: version{4, 6, 2}}}},
		{span{version{1, 10}, version{2}}, []span{{version{4, 6, 2}, version{5}}, {low: version{8}}}},
	},
	// required_ruby_version in opentelemetry-sdk.gemspec; the releases that
	// raised it are in sdk/CHANGELOG.md of opentelemetry-ruby, read up to 1.13.0.
	"ruby": {
		{span{version{1, 0}, version{1, 1}}, []span{{low: version{2, 5}}}},
		{span{version{1, 1}, version{1, 3}}, []span{{low: version{2, 6}}}},
		{span{version{1, 3}, version{1, 8}}, []span{{low: version{3, 0}}}},
		{span{version{1, 8}, version{1, 11}}, []span{{low: version{3, 1}}}},
		{span{version{1, 11}, version{2}}, []span{{low: version{3, 3}}}},
	},
	// require.php in composer.json of open-telemetry/sdk: ^7.4 || ^8.0 for 1.0,
	// ^8.1 from 1.1 on.
	"php": {
		{span{version{1, 0}, version{1, 1}}, []span{{version{7, 4}, version{9}}}},
		{span{version{1, 1}, version{2}}, []span{{version{8, 1}, version{9}}}},
	},
}
