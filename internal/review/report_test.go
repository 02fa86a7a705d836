// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCovers(t *testing.T) {
	for name, tt := range map[string]struct {
		failed Error
		want   bool
	}{
		"the file":          {Error{File: "dir/a.go"}, false},
		"its directory":     {Error{File: "dir"}, false},
		"the root":          {Error{File: "."}, false},
		"the whole review":  {Error{}, false},
		"the check":         {Error{Check: "metric-unit"}, false},
		"another file":      {Error{File: "dir/b.go"}, true},
		"another directory": {Error{File: "di"}, true},
		"another check":     {Error{Check: "metric-unit-conflict"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := Report{Errors: []Error{tt.failed}}
			require.Equal(t, tt.want, r.Covers("dir/a.go", "metric-unit"))
		})
	}
	require.True(t, new(Report).Covers("a.go", "metric-unit"))
}

func TestSDKConfigurationIsOpenTelemetry(t *testing.T) {
	r := review(t, Options{Root: tree(t, map[string]string{"otel.yaml": "file_format: \"1.0\"\ntracer_provider: {processors: []}\n"})})
	require.True(t, r.Instrumentation.OTelPresent)
}
