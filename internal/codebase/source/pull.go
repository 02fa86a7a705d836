// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"assay"
)

// Pull is a pull request, or merge request, at a source host with an API.
type Pull struct {
	Number int
	URL    string // of its page
	State  string // assay.PullOpen, assay.PullMerged or assay.PullClosed
}

// pullAnswer has the fields of a pull request of GitHub and Gitea, and of a merge request of GitLab.
type pullAnswer struct {
	Number   int     `json:"number"`
	IID      int     `json:"iid"`
	State    string  `json:"state"`     // open, opened, closed, merged, locked
	Merged   bool    `json:"merged"`    // Gitea
	MergedAt *string `json:"merged_at"` // GitHub and GitLab
	Source   string  `json:"source_branch"`
	// The projects of a merge request of GitLab. They differ if it comes from a fork.
	SourceProject int64 `json:"source_project_id"`
	TargetProject int64 `json:"target_project_id"`

	Head struct {
		Ref        string `json:"ref"`
		Repository *struct {
			FullName string `json:"full_name"`
		} `json:"repo"`
	} `json:"head"`
}

// pulls returns the path of the list of pull requests of a repository, and the parameters that select the open ones.
func (h *forgeHost) pulls(r *assay.Repository, branch string) (path, query string) {
	if h.kind == KindGitLab {
		return "/projects/" + url.PathEscape(r.FullName) + "/merge_requests",
			url.Values{"state": {"opened"}, "source_branch": {branch}, "per_page": {"50"}}.Encode()
	}
	owner, _, _ := strings.Cut(r.FullName, "/")
	// Gitea ignores head, and GitHub ignores limit.
	return "/repos/" + r.FullName + "/pulls", url.Values{"state": {"open"}, "head": {owner + ":" + branch}, "limit": {"50"}, "per_page": {"50"}}.Encode()
}

// pull returns the pull request in an answer. Its URL is built from known parts, so that the host cannot choose it.
func (h *forgeHost) pull(r *assay.Repository, a *pullAnswer) (*Pull, error) {
	p := &Pull{Number: max(a.Number, a.IID), State: assay.PullClosed}
	page := "/pull/"
	switch h.kind {
	case KindGitLab:
		p.Number, page = a.IID, "/-/merge_requests/"
	case KindGitea:
		page = "/pulls/"
	}
	if p.Number <= 0 {
		return nil, h.trouble("sent an answer that is not as documented")
	}
	switch {
	case a.Merged || a.MergedAt != nil || a.State == "merged":
		p.State = assay.PullMerged
	case a.State == "open" || a.State == "opened" || a.State == "locked":
		p.State = assay.PullOpen
	}
	p.URL = h.base + "/" + r.FullName + page + strconv.Itoa(p.Number)
	return p, nil
}

// propose opens a pull request for a change, or updates the open pull request of the same branch.
func (h *forgeHost) propose(ctx context.Context, r *assay.Repository, token string, ch *Change) (*Pull, error) {
	list, query := h.pulls(r, ch.Branch)
	var open *pullAnswer
	err := h.pages(ctx, list+"?"+query, token, 50, func() any { return new(items[pullAnswer]) }, func(a any) int {
		all := *a.(*items[pullAnswer])
		for _, found := range all {
			own := found.Head.Ref == ch.Branch && found.Head.Repository != nil && found.Head.Repository.FullName == r.FullName
			if own || h.kind == KindGitLab && found.Source == ch.Branch && found.SourceProject != 0 && found.SourceProject == found.TargetProject {
				open = &found
				return 0
			}
		}
		return len(all)
	})
	if err != nil {
		return nil, err
	}
	method, path := http.MethodPost, list
	body := map[string]any{"title": ch.Title}
	text, head, base := "body", "head", "base"
	if h.kind == KindGitLab {
		text, head, base = "description", "source_branch", "target_branch"
	}
	body[text] = ch.Body
	switch {
	case open == nil:
		body[head], body[base] = ch.Branch, ch.Base
	case h.kind == KindGitLab:
		method, path = http.MethodPut, list+"/"+strconv.Itoa(open.IID)
	default:
		method, path = http.MethodPatch, list+"/"+strconv.Itoa(open.Number)
	}
	var made pullAnswer
	if err := h.call(ctx, method, path, token, body, &made); err != nil {
		return nil, err
	}
	return h.pull(r, &made)
}

// Pull returns a pull request of a repository. It returns an error if the source host has no API.
func (s *Sources) Pull(ctx context.Context, i *assay.Installation, r *assay.Repository, number int) (*Pull, error) {
	_, c, f, err := s.access(ctx, i, r, toFollow)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errNotConfigured(i.Provider)
	}
	list, _ := f.host().pulls(r, "")
	var found pullAnswer
	if err := f.host().call(ctx, http.MethodGet, list+"/"+strconv.Itoa(number), c.Token, nil, &found); err != nil {
		return nil, err
	}
	return f.host().pull(r, &found)
}
