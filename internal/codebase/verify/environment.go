// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"path/filepath"
	"strconv"
	"strings"

	"assay/internal/codebase/sandbox"
)

// environment returns the environment of the tests. It disables network access of package managers, and sets short
// export intervals, because a test process may end early.
func (v *Verifier) environment() []string {
	return append([]string{
		"PATH=" + v.path(), "LANG=C.UTF-8", "CI=true", "NO_COLOR=1",
		"GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false",
		"npm_config_offline=true", "npm_config_update_notifier=false", "PIP_NO_INDEX=1", "PYTHONDONTWRITEBYTECODE=1",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:" + strconv.Itoa(portHTTP), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_LOGS_EXPORTER=otlp", "OTEL_TRACES_SAMPLER=always_on",
		"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_BLRP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=500", "OTEL_METRIC_EXPORT_TIMEOUT=500",
	}, v.Env...)
}

// path returns PATH for the tests: the directories of this process's PATH that are in the container.
func (v *Verifier) path() string {
	var dirs []string
	for _, dir := range append(filepath.SplitList(sandbox.Path()), "/usr/local/bin", "/usr/bin", "/bin") {
		for _, root := range append([]string{"/usr", "/bin", "/sbin"}, v.ReadOnly...) {
			if dir = filepath.Clean(dir); dir == root || strings.HasPrefix(dir, filepath.Clean(root)+"/") {
				dirs = append(dirs, dir)
				break
			}
		}
	}
	return strings.Join(dirs, ":")
}
