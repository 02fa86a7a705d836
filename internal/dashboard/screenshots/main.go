// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"

	"assay"
	"assay/internal/dashboard"
	"assay/internal/dashboard/browsertest"
	"assay/internal/dashboard/dashboardtest"
	"assay/internal/session"
)

// shot is one page of a picture.
type shot struct {
	name, path string
	world      func() *dashboardtest.World // created for each screenshot, because some pages change it
	signedOut  bool
	post       string // selector to click first
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run() error {
	to := flag.String("out", "bin/screenshots", "the folder for the pictures")
	readme := flag.String("readme", "", "the folder for the top of those that the README shows, none without it")
	only := flag.String("run", ".", "take the pictures whose name matches this regular expression")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if err := os.MkdirAll(*to, 0o755); err != nil {
		return err
	}
	browser, err := browsertest.Start()
	if err != nil {
		return err
	}
	defer browser.Close()
	tab, err := browser.NewTab()
	if err != nil {
		return err
	}
	for _, s := range shots() {
		for _, theme := range []string{"light", "dark"} {
			for _, screen := range []struct {
				name          string
				width, height int64
				phone         bool
			}{{"wide", 1440, 900, false}, {"phone", 390, 844, true}} {
				name := fmt.Sprintf("%s-%s-%s.png", s.name, theme, screen.name)
				if !match.MatchString(name) {
					continue
				}
				if err := tab.Viewport(screen.width, screen.height, screen.phone); err != nil {
					return err
				}
				if err := tab.Scheme(theme); err != nil {
					return err
				}
				picture, err := served(tab, s)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if err := write(filepath.Join(*to, name), picture, 0); err != nil {
					return err
				}
				if inReadme[name] != "" && *readme != "" {
					if err := write(filepath.Join(*readme, inReadme[name]), picture, readmeHeight); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// served serves the pages of a shot and returns its screenshot.
func served(tab *browsertest.Tab, s shot) ([]byte, error) {
	srv, stop, err := serve(s)
	if err != nil {
		return nil, err
	}
	defer stop()
	return take(tab, srv.URL, s)
}

// shots returns all screenshots.
func shots() []shot {
	shop := dashboardtest.Shop()
	service := func(name, environment string) string {
		for _, r := range shop.Rows {
			if r.Name == name && r.Environment == environment {
				return r.ID
			}
		}
		return ""
	}
	insight := func(service, kind string) string {
		for _, i := range shop.Found {
			if i.Service.ID == service && i.Type == kind {
				return i.ID
			}
		}
		return ""
	}
	leak := insight(service("accounts", "production"), "sensitive_log_data")
	muted := func() *dashboardtest.World {
		w := dashboardtest.Shop()
		_ = w.MuteInsight(context.Background(), leak, "The addresses are those of a test account; the team rotates it in December.")
		return w
	}
	unavailable := func() *dashboardtest.World {
		w := dashboardtest.Shop()
		w.Err = assay.Errorf(assay.CodeUnavailable, "the store is unavailable")
		return w
	}
	busy := dashboardtest.Busy().Rows[0].ID
	return []shot{
		{name: "overview", path: "/", world: dashboardtest.Shop},
		{name: "services", path: "/services?sort=score", world: dashboardtest.Shop},
		{name: "services-none", path: "/services?q=nothing", world: dashboardtest.Shop},
		{name: "service", path: "/services/" + service("courier", "production"), world: dashboardtest.Shop},
		{name: "service-versions", path: "/services/" + service("checkout", "production"), world: dashboardtest.Shop},
		{name: "service-busy", path: "/services/" + busy, world: dashboardtest.Busy},
		{name: "insights", path: "/insights", world: dashboardtest.Shop},
		{name: "insights-rule", path: "/insights?rule=MET-002", world: dashboardtest.Shop},
		{name: "insights-which", path: "/insights?q=accounts", world: dashboardtest.Shop},
		{name: "insight", path: "/insights/" + leak, world: dashboardtest.Shop},
		{name: "insight-summary", path: "/insights/" + leak, world: dashboardtest.Shop, post: "[data-wait]"},
		{name: "insight-muted", path: "/insights/" + leak, world: muted},
		{name: "costs", path: "/costs", world: dashboardtest.Shop},
		{name: "repositories", path: "/repositories", world: dashboardtest.Shop},
		{name: "repository", path: "/repositories/" + dashboardtest.RepositoryID, world: dashboardtest.Shop},
		{name: "connect", path: "/repositories/connect", world: dashboardtest.Shop},
		{name: "findings", path: "/findings", world: dashboardtest.Shop},
		{name: "finding", path: "/repositories/" + dashboardtest.RepositoryID + "/findings/" + dashboardtest.FindingID, world: dashboardtest.Shop},
		{name: "run", path: "/runs/" + dashboardtest.RunID, world: dashboardtest.Shop},
		{name: "rules", path: "/rules", world: dashboardtest.Shop},
		{name: "rule", path: "/rules/RES-001", world: dashboardtest.Shop},
		{name: "keys", path: "/keys", world: dashboardtest.Shop},
		{name: "keys-new", path: "/keys", world: dashboardtest.Shop, post: ".newkey button"},
		{name: "revoke", path: "/keys/q7Lm2P/revoke", world: dashboardtest.Shop},
		{name: "first-run", path: "/", world: dashboardtest.Empty},
		{name: "sign-in", path: "/sign-in", world: dashboardtest.Shop, signedOut: true},
		{name: "not-found", path: "/nothing", world: dashboardtest.Shop},
		{name: "unavailable", path: "/", world: unavailable},
	}
}

// serve serves the pages of a shot until the returned function is called.
func serve(s shot) (*httptest.Server, func(), error) {
	who := dashboardtest.Session()
	if s.signedOut {
		who = nil
	}
	h, err := dashboard.New(dashboardtest.Config(s.world(), who))
	if err != nil {
		return nil, nil, err
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == session.SignInPath {
			h.SignInPage(w, r, http.StatusOK, session.SignInPage{Return: "/", Provider: true})
			return
		}
		h.ServeHTTP(w, r)
	}))
	return srv, func() {
		srv.Close()
		h.Close()
	}, nil
}

// inReadme maps the screenshots of the README to their file names.
var inReadme = map[string]string{
	"overview-light-wide.png": "overview.png", "service-dark-wide.png": "service.png", "insight-light-wide.png": "insight.png",
}

const readmeHeight = 1080 // in CSS pixels from the top

// write compresses a screenshot and writes it to a file. A height other than 0 crops it.
func write(file string, picture []byte, height int) error {
	compressed, err := compress(picture, height)
	if err != nil {
		return err
	}
	return os.WriteFile(file, compressed, 0o644)
}

// take returns the screenshot of one page.
func take(tab *browsertest.Tab, root string, s shot) ([]byte, error) {
	if err := tab.Open(root + s.path); err != nil {
		return nil, err
	}
	if s.post != "" {
		if s.name == "keys-new" {
			if err := tab.Type("#name", "collector, edge"); err != nil {
				return nil, err
			}
		}
		if err := tab.Click(s.post); err != nil {
			return nil, err
		}
		if err := tab.Await(`document.querySelector('.prose strong, #secret') !== null`); err != nil {
			return nil, err
		}
	}
	if err := tab.Await(`document.readyState === 'complete' && document.fonts.status === 'loaded'`); err != nil {
		return nil, err
	}
	return tab.Screenshot()
}
