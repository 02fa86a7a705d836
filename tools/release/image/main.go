// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the id of the user and the group that the program runs as, as in deploy/container.
const user = 65532

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// file is a file of the image.
type file struct {
	name    string // without a leading slash
	mode    int64
	content []byte
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	version := flags.String("version", "", "version of the release")
	revision := flags.String("revision", "", "commit of the release")
	epoch := flags.Int64("epoch", 0, "creation time, in seconds since 1970")
	output := flags.String("output", "", "directory of the OCI layout")
	var files []file
	flags.Func("file", "`PATH=FILE`: another file of the image", func(s string) error {
		path, name, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("no PATH=FILE")
		}
		content, err := os.ReadFile(name)
		files = append(files, file{strings.TrimPrefix(path, "/"), 0o644, content})
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *version == "" || *output == "" || flags.NArg() == 0 {
		return errors.New("-version, -output and a platform are required")
	}
	created := time.Unix(*epoch, 0).UTC()
	files = append(files, file{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates()})
	labels := map[string]string{
		"org.opencontainers.image.title":    "assay",
		"org.opencontainers.image.version":  *version,
		"org.opencontainers.image.revision": *revision,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}

	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range flags.Args() {
		name, binary, _ := strings.Cut(arg, "=")
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return fmt.Errorf("parse platform %q: %w", name, err)
		}
		program, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		img, err := build(platform, append(files[:len(files):len(files)], file{"assay", 0o755, program}), created, labels)
		if err != nil {
			return fmt.Errorf("build image of %s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	dir, err := layout.Write(*output, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	// The names that skopeo and podman, and docker, give the image when they load it.
	return dir.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": *version,
		"io.containerd.image.name":          "docker.io/library/assay:" + *version,
	}))
}

// build returns the image of a platform.
func build(platform *v1.Platform, files []file, created time.Time, labels map[string]string) (v1.Image, error) {
	content, err := archive(files, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "make release"},
	}); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = platform.Architecture, platform.OS, v1.Time{Time: created}
	// The settings of deploy/container/Dockerfile.
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user),
		Env: []string{
			"ASSAY_DATA_DIR=/data",
			"ASSAY_HTTP_ADDRESS=0.0.0.0:8080",
			"ASSAY_OTLP_GRPC_ADDRESS=0.0.0.0:4317",
			"ASSAY_OTLP_HTTP_ADDRESS=0.0.0.0:4318",
			"ASSAY_LOG_FORMAT=json",
		},
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "4317/tcp": {}, "4318/tcp": {}},
		StopSignal:   "SIGTERM",
		Entrypoint:   []string{"/assay"},
		Cmd:          []string{"serve"},
		Labels:       labels,
	}
	return mutate.ConfigFile(img, config)
}

// archive returns the file system as a tar archive.
func archive(files []file, modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	header := func(h tar.Header) error {
		h.ModTime = modified
		return w.WriteHeader(&h)
	}
	err := errors.Join(
		header(tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o700, Uid: user, Gid: user}),
		header(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}),
	)
	for _, f := range files {
		err = errors.Join(err, header(tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}))
		_, writeErr := w.Write(f.content)
		err = errors.Join(err, writeErr)
	}
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// certificates returns the certificates of Mozilla's program as PEM. It omits those with a
// constraint, which PEM cannot express: they are valid only for certificates of a certain age.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}
