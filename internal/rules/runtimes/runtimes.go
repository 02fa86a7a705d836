// SPDX-License-Identifier: Apache-2.0

package runtimes

// span is a range of versions, from low up to and without before. A zero
// before leaves the range open.
type span struct{ low, before version }

func (s span) contains(v version) bool {
	return v.compare(s.low) >= 0 && (s.before == version{} || v.compare(s.before) < 0)
}

// row is the range of runtimes that a range of releases of one SDK supports.
type row struct {
	sdk      span
	runtimes []span
}

// Supported reports whether the SDK of the given telemetry.sdk.language and
// telemetry.sdk.version supports the runtime of the given
// process.runtime.version. The pair is not known, and supported is false, when
// the table does not cover the language or the SDK version, or when one of the
// versions cannot be read. An SDK version newer than the table counts as the
// newest listed one of its major version.
//
// Supported is pure, allocates nothing and is safe for concurrent use.
func Supported(language, sdkVersion, runtimeVersion []byte) (supported, known bool) {
	rows, ok := table[string(language)]
	if !ok {
		return false, false
	}
	sdk, ok := parseVersion(sdkVersion)
	if !ok {
		return false, false
	}
	runtime, ok := parseVersion(runtimeVersion)
	if !ok {
		return false, false
	}
	switch {
	case string(language) == "java" && runtime[0] == 1:
		// Java 8 and older report 1.8, 1.7 and so on.
		runtime = version{runtime[1], runtime[2]}
	case string(language) == "dotnet" && runtime == version{4, 0, 30319}:
		// The CLR version is the same for every .NET Framework 4.x.
		return false, false
	}
	for _, r := range rows {
		if !r.sdk.contains(sdk) {
			continue
		}
		for _, s := range r.runtimes {
			if s.contains(runtime) {
				return true, true
			}
		}
		return false, true
	}
	return false, false
}
