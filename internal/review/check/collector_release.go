// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path"
	"regexp"

	"golang.org/x/mod/semver"

	"assay/internal/review/configfile"
)

// collectorImage matches an image of the Collector from the OpenTelemetry project, and its release if the tag names one.
var collectorImage = regexp.MustCompile(`(?:^|/)opentelemetry-collector(?:-contrib|-k8s)?(?:$|@|:(?:v?(0\.\d+\.\d+)(?:$|@))?)`)

// collectorReleases holds the releases of the Collector images in deployment files, by file and by directory: the newest
// one, such as "v0.98.0", or "" if an image has no fixed release.
type collectorReleases map[string]string

// add adds the images of a file.
func (r collectorReleases) add(f *configfile.File) {
	var images []string
	for _, s := range f.Services {
		images = append(images, s.Image)
	}
	switch f.Kind {
	case configfile.Kubernetes: // the OpenTelemetryCollector of the Operator
		images = append(images, configfile.Text(configfile.Get(f.YAML, "spec", "image")))
	case configfile.HelmValues:
		image := configfile.Get(f.YAML, "image")
		images = append(images, configfile.Text(configfile.Get(image, "repository"))+":"+configfile.Text(configfile.Get(image, "tag")))
	}
	for _, image := range images {
		m := collectorImage.FindStringSubmatch(image)
		if m == nil {
			continue
		}
		for _, place := range []string{f.Path, path.Dir(f.Path) + "/"} {
			release := ""
			if m[1] != "" {
				release = "v" + m[1]
			}
			if known, ok := r[place]; ok && (known == "" || release != "" && semver.Compare(known, release) > 0) {
				continue
			}
			r[place] = release
		}
	}
}

// of returns the release of the Collector that reads a configuration, "" if it is unknown. The image is in the same file or
// directory, or in the nearest directory above. The latter does not hold on Kubernetes, where directories often have
// one Collector each.
func (r collectorReleases) of(f *configfile.File) string {
	if release, ok := r[f.Path]; ok {
		return release
	}
	for dir := range configfile.Above(path.Dir(f.Path)) {
		if release, ok := r[dir+"/"]; ok || f.OnKubernetes {
			return release
		}
	}
	return ""
}
