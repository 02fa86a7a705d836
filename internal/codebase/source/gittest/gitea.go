// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Pull is a pull request.
type Pull struct {
	Repository string
	Number     int
	Branch     string
}

// Gitea is the API of a Gitea with the user mona, whose repositories are Names. Each request to authorize is granted.
type Gitea struct {
	Names []string // such as mona/shop

	mu    sync.Mutex
	pulls []Pull
}

// Pulls returns the pull requests, all of which are open.
func (g *Gitea) Pulls() []Pull {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.pulls)
}

// Wrap returns a handler that serves git and the API.
func (g *Gitea) Wrap(git http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", git)
	mux.HandleFunc("GET /login/oauth/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"code"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /login/oauth/access_token", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"access_token": Token, "token_type": "Bearer"})
	})
	api := func(pattern string, serve http.HandlerFunc) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/v1"+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+Token {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			serve(w, r)
		})
	}
	api("GET /user", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"id": 7, "login": "mona"}) })
	api("GET /user/repos", func(w http.ResponseWriter, r *http.Request) {
		all := []map[string]any{}
		if r.URL.Query().Get("page") == "1" {
			for i, name := range g.Names {
				all = append(all, map[string]any{"id": i + 1, "full_name": name, "default_branch": "main"})
			}
		}
		answer(w, all)
	})
	const pulls = "/repos/{owner}/{name}/pulls"
	api("GET "+pulls, func(w http.ResponseWriter, r *http.Request) {
		all := []map[string]any{}
		for _, p := range g.pulls {
			if p.Repository == repository(r) && r.URL.Query().Get("page") == "1" {
				all = append(all, p.shown())
			}
		}
		answer(w, all)
	})
	api("POST "+pulls, func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Head string }
		if json.NewDecoder(r.Body).Decode(&asked) != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		p := Pull{repository(r), 1, asked.Head}
		for _, other := range g.pulls {
			if other.Repository == p.Repository {
				p.Number++
			}
		}
		if slices.ContainsFunc(g.pulls, func(other Pull) bool { return other.Repository == p.Repository && other.Branch == p.Branch }) {
			w.WriteHeader(http.StatusConflict)
			return
		}
		g.pulls = append(g.pulls, p)
		answer(w, p.shown())
	})
	one := func(w http.ResponseWriter, r *http.Request) {
		for _, p := range g.pulls {
			if p.Repository == repository(r) && strconv.Itoa(p.Number) == r.PathValue("number") {
				answer(w, p.shown())
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}
	api("GET "+pulls+"/{number}", one)
	api("PATCH "+pulls+"/{number}", one)
	return mux
}

func repository(r *http.Request) string { return r.PathValue("owner") + "/" + r.PathValue("name") }

func (p *Pull) shown() map[string]any {
	return map[string]any{"number": p.Number, "state": "open", "head": map[string]any{"ref": p.Branch, "repo": map[string]any{"full_name": p.Repository}}}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
