// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"embed"
	"path"
	"strings"
)

//go:embed testdata/*.binpb
var recordings embed.FS

// Real returns requests recorded from the Go and Node.js SDKs and telemetrygen.
func Real() []Request {
	files, err := recordings.ReadDir("testdata")
	if err != nil {
		panic(err)
	}
	var all []Request
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".binpb")
		r := Request{Name: "real " + name, Body: must(recordings.ReadFile(path.Join("testdata", f.Name())))}
		for _, s := range Signals {
			if strings.HasSuffix(name, s.String()) {
				r.Signal = s
			}
		}
		all = append(all, r)
	}
	return all
}
