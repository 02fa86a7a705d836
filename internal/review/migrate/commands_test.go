// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommands checks steps about commands and manifests.
func TestCommands(t *testing.T) {
	const manifest = `{"scripts": {
"start": "node --loader dd-trace/loader-hook.mjs a.js",
"dev": "node -r dd-trace a.js"
}, "dependencies": {"dd-trace": "^5"}}
`
	const code = "const tracer = require('dd-trace').init()\nmodule.exports = () => tracer.startSpan('a').finish()\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string // steps
		not   string
	}{
		"a migrated package": {
			map[string]string{"package.json": manifest, "a.js": code, "Dockerfile": "FROM node:20\n# dd-trace/init\nCMD [\"node\", \"--require\", \"dd-trace/init\", \"a.js\"]\n"},
			[]string{"open: package.json:2: The command loads dd-trace/loader-hook.mjs: load", "open: package.json:3: The command loads dd-trace: load", "open: Dockerfile:3: The command loads dd-trace/init: load"},
			"Dockerfile:2",
		},
		"a package without code": {
			map[string]string{"package.json": manifest, "a.js": "f()\n", "package-lock.json": "{\"node_modules/dd-trace/node_modules/a\": {}}\n"},
			[]string{"open: package.json:2: The command loads dd-trace/loader-hook.mjs: load"},
			"lock",
		},
		"a package without commands": {
			map[string]string{"package.json": `{"dependencies": {"dd-trace": "^5"}}`, "a.js": "f()\n"},
			[]string{"open: package.json:0: The project depends on dd-trace, but no code uses it."},
			"The command",
		},
		"another package": {
			map[string]string{"p/package.json": manifest, "p/a.js": "f()\n", "q/package.json": `{"scripts": {"start": "node -r dd-trace/init a.js"}}`, "q/a.js": "f()\n"},
			[]string{"open: p/package.json:2: "},
			"q/",
		},
		"Python": {
			map[string]string{"p/requirements.txt": "ddtrace==2.8\n", "p/a.py": "f()\n", "p/Procfile": "web: ddtrace-run flask run\n", "compose.yaml": "services:\n  p:\n    command: ddtrace-run flask run\n"},
			[]string{"open: p/Procfile:1: The command has ddtrace-run: start", "open: compose.yaml:3: The command has ddtrace-run: start"},
			"depends on",
		},
		"a migrated project of Python": {
			map[string]string{"requirements.txt": "ddtrace\n", "a.py": "from ddtrace import tracer\n\nwith tracer.trace('a'):\n    pass\n", "Dockerfile": "FROM python:3.11\nCMD [\"ddtrace-run\", \"flask\", \"run\"]\n"},
			[]string{"open: Dockerfile:2: The command has ddtrace-run: start"},
			"depends on",
		},
		"requirements in a directory": {
			map[string]string{"requirements.txt": "-r requirements/base.txt\n", "requirements/base.txt": "flask\nopencensus==0.11\n", "a.py": "from opencensus.trace.tracer import Tracer\n\ntracer = Tracer()\n"},
			[]string{"open: requirements/base.txt:2: Replace the dependency of the old library by opentelemetry-api"},
			"base.txt:1",
		},
		"a project without requirements.txt": {
			map[string]string{"Pipfile": "[packages]\nopencensus = \"*\"\n", "a.py": "from opencensus.trace.tracer import Tracer\n\ntracer = Tracer()\n"},
			[]string{"open: Pipfile:0: Install the packages"},
			"requirements.txt",
		},
		"another library": {map[string]string{"requirements.txt": "opentracing\n", "a.py": "f()\n"}, nil, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			got := describe(t, migrated(t, write(t, tt.files)))
			for _, want := range tt.want {
				require.Contains(t, got, want)
			}
			require.NotContains(t, got, tt.not)
		})
	}
}
