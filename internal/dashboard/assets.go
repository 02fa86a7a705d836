// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"assay/internal/httpreply"
)

//go:embed assets
var assetFiles embed.FS

// AssetsPath is the prefix of the paths of assets, which need no session. The next segment is a hash of the asset, so
// browsers may cache it indefinitely.
const AssetsPath = "/assets/"

// assets holds the files that pages refer to.
type assets struct {
	paths map[string]string // by name
	files map[string]*asset // by path
}

type asset struct {
	contentType      string
	body, compressed []byte // compressed is nil if compression saves little
}

func loadAssets() (*assets, error) {
	a := &assets{paths: map[string]string{}, files: map[string]*asset{}}
	root, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		return nil, err
	}
	var style []byte
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(root, name)
		switch {
		case err != nil:
			return err
		case name == styleName:
			style = body // it names others, so it comes last
			return nil
		case path.Ext(name) == ".txt" || path.Ext(name) == ".md": // licences
			return nil
		}
		return a.add(name, body)
	})
	if err != nil {
		return nil, err
	}
	for name, at := range a.paths {
		style = bytes.ReplaceAll(style, []byte("url("+name+")"), []byte("url("+at+")"))
	}
	return a, a.add(styleName, style)
}

const styleName = "app.css"

func (a *assets) add(name string, body []byte) error {
	sum := sha256.Sum256(body)
	at := AssetsPath + hex.EncodeToString(sum[:8]) + "/" + path.Base(name)
	contentType := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".woff2" {
		contentType = "font/woff2"
	}
	if contentType == "" {
		return fmt.Errorf("asset %s: unknown type", name)
	}
	f := &asset{contentType: contentType, body: body}
	var compressed bytes.Buffer
	zw, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, _ = zw.Write(body) // into memory: cannot fail
	_ = zw.Close()
	if compressed.Len() < len(body)*9/10 {
		f.compressed = compressed.Bytes()
	}
	a.paths[name], a.files[at] = at, f
	return nil
}

// path returns the path of an asset, or "" if there is none with the name.
func (a *assets) path(name string) string { return a.paths[name] }

// ServeHTTP serves an asset.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := a.files[r.URL.Path]
	header := w.Header()
	if f == nil {
		header.Set("Cache-Control", "no-store")
		http.Error(w, "no such asset", http.StatusNotFound)
		return
	}
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	header.Set("Vary", "Accept-Encoding")
	body := f.body
	if f.compressed != nil && httpreply.AcceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		body = f.compressed
	}
	httpreply.Write(w, r, http.StatusOK, f.contentType, body)
}
