// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// The resources.
type (
	runData struct {
		label
		ID           string      `json:"id"`
		Type         string      `json:"type"`
		Status       string      `json:"status"`
		RepositoryID string      `json:"repository_id"`
		Branch       string      `json:"branch"`
		CreatedAt    time.Time   `json:"created_at"`
		StartedAt    *time.Time  `json:"started_at"`
		FinishedAt   *time.Time  `json:"finished_at"`
		CurrentPhase *string     `json:"current_phase"` // of a run that is running
		Summary      *string     `json:"summary"`       // of a run that has ended
		Error        *string     `json:"error"`         // of a run that has failed
		Result       *resultData `json:"result"`        // of a run that is completed
	}
	resultData struct {
		FindingCount   int     `json:"finding_count"` // reported or resolved
		PullRequestURL *string `json:"pull_request_url"`
		MigratedFrom   *string `json:"migrated_from"`
	}
	phaseData struct {
		Name       string     `json:"name"`
		Order      int        `json:"order"`
		Status     string     `json:"status"`
		StartedAt  *time.Time `json:"started_at"`
		FinishedAt *time.Time `json:"finished_at"`
	}
	detailedRun struct {
		runData
		Phases []phaseData `json:"phases"`
		Events []event     `json:"events"`
	}
)

// reached returns a moment that has come, else nil.
func reached(at, now time.Time) *time.Time {
	if now.Before(at) {
		return nil
	}
	return &at
}

// some returns a text that is not empty, else nil.
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (r *run) data(now time.Time) runData {
	d := runData{
		ID: r.id, Type: r.kind, Status: r.status(now), RepositoryID: r.repository.id, Branch: r.branch,
		CreatedAt: r.created, StartedAt: reached(r.starts, now), FinishedAt: reached(r.ends, now),
	}
	switch d.Status {
	case statusRunning:
		d.CurrentPhase = some(phasesOf[r.kind][now.Sub(r.starts)/r.phase])
	case statusFailed:
		d.Summary, d.Error = some(r.outcome.summary), some(r.outcome.failure)
	case statusCompleted:
		d.Summary = some(r.outcome.summary)
		d.Result = &resultData{len(r.findings), some(r.outcome.pullRequest), some(r.outcome.partner)}
	}
	return d
}

func (r *run) phases(now time.Time) []phaseData {
	var all []phaseData
	for i, name := range phasesOf[r.kind] {
		from := r.starts.Add(time.Duration(i) * r.phase)
		p := phaseData{Name: name, Order: i + 1, Status: statusPending}
		switch gone := i >= r.length(); {
		case gone && r.status(now) == statusFailed:
			p.Status = statusSkipped
		case !gone:
			p.StartedAt, p.FinishedAt = reached(from, now), reached(from.Add(r.phase), now)
			switch {
			case p.FinishedAt != nil && i == r.length()-1 && r.outcome.failure != "":
				p.Status = statusFailed
			case p.FinishedAt != nil:
				p.Status = statusCompleted
			case p.StartedAt != nil:
				p.Status = statusRunning
			}
		}
		all = append(all, p)
	}
	return all
}

// execute returns what starts runs of a kind. A run needs an active repository; where
// the body names none, it is the first one by installation. Runs of one repository
// follow each other.
func execute(kind string) func(*call) (response, error) {
	return func(c *call) (response, error) {
		o := c.organization
		var id, branch *string
		var wanted *[]string
		f := fields{"repository_id": &id, "branch": &branch}
		if kind == kindFix {
			f["finding_ids"] = &wanted
		}
		if err := decode(c.body, f); err != nil {
			return response{}, err
		}
		if branch != nil && (*branch == "" || len(*branch) > maxID) {
			return response{}, unprocessable(map[string]string{"branch": "must have 1 to " + number(maxID) + " bytes"})
		}
		repository, err := o.pick(id)
		if err != nil {
			return response{}, err
		}
		if wanted != nil {
			if len(*wanted) == 0 {
				return response{}, unprocessable(map[string]string{"finding_ids": "must not be empty; without the field all findings are fixed"})
			}
			for _, id := range *wanted {
				if !slices.ContainsFunc(o.findings, func(f *finding) bool { return f.id == id && f.repository == repository }) {
					return response{}, unprocessable(map[string]string{"finding_ids": "holds an id that is not one of the repository's findings"})
				}
			}
		}
		if err := o.makeRoom(c.cfg.MaxRuns); err != nil {
			return response{}, err
		}
		r := newRun(o.nextRunID(), kind, repository, o.now, c.cfg.Phase)
		if branch != nil {
			r.branch = *branch
		}
		if wanted != nil {
			r.wanted = slices.Compact(slices.Sorted(slices.Values(*wanted)))
		}
		repository.lastRun = r
		o.runs = append(o.runs, r)
		o.settle(o.now)
		return response{data: detailedRun{r.data(o.now), r.phases(o.now), nonNil(r.events(o.now))}}, nil
	}
}

var executeAnyMigration = execute(kindMigration)

// executeMigration starts a migration of an organization that may have one.
func executeMigration(c *call) (response, error) {
	if !c.cfg.mayMigrate(c.organization.id) {
		return response{}, refuse(http.StatusForbidden, "the organization is not entitled to partner migrations")
	}
	return executeAnyMigration(c)
}

// pick returns the repository for a run: the one with the id, else the first that is active.
func (o *organization) pick(id *string) (*repository, error) {
	if id == nil {
		for _, in := range o.installations {
			for _, r := range in.repositories {
				if r.active {
					return r, nil
				}
			}
		}
		return nil, refuse(http.StatusConflict, "no repository is active")
	}
	r := o.repositories[*id]
	switch {
	case r == nil:
		return nil, refuse(http.StatusNotFound, "there is no repository with this id")
	case !r.active:
		return nil, refuse(http.StatusConflict, "the repository is not active")
	}
	return r, nil
}

// makeRoom forgets the oldest runs that have ended until another one fits.
func (o *organization) makeRoom(most int) error {
	for len(o.runs) >= most {
		i := slices.IndexFunc(o.runs, func(r *run) bool { return r.done })
		if i < 0 {
			err := refuse(http.StatusTooManyRequests, "too many runs have not ended")
			err.retryAfter = slices.MinFunc(o.runs, func(a, b *run) int { return a.ends.Compare(b.ends) }).ends.Sub(o.now)
			return err
		}
		if r := o.runs[i]; r.repository.lastRun == r {
			r.repository.lastRun = nil
		}
		o.runs = slices.Delete(o.runs, i, i+1)
	}
	return nil
}

// maxOffset keeps sums with an offset in an int.
const maxOffset = 1_000_000_000

// listRuns lists runs, newest first.
func listRuns(c *call) (response, error) {
	p := c.params()
	limit := p.integer("limit", 50, 1, 100)
	offset := p.integer("offset", 0, 0, maxOffset)
	status := p.enum("status", "", runStatuses...)
	repository := p.text("repositoryId")
	wanted := p.list("executionType", runKinds...)
	if err := p.err(); err != nil {
		return response{}, err
	}
	o := c.organization
	found := []runData{}
	for _, r := range slices.Backward(o.runs) {
		if (status == "" || r.status(o.now) == status) &&
			(repository == "" || r.repository.id == repository) &&
			(wanted == nil || slices.Contains(wanted, r.kind)) {
			found = append(found, r.data(o.now))
		}
	}
	total := len(found)
	last := 0
	if total > 0 {
		last = (total - 1) / limit * limit
	}
	link := func(offset int) string {
		return c.linkTo("/executions", map[string]int{"limit": limit, "offset": offset})
	}
	l := &links{Self: link(offset), First: link(0), Last: link(last)}
	if offset > 0 {
		l.Prev = link(max(0, min(offset-limit, last)))
	}
	if offset+limit < total {
		l.Next = link(offset + limit)
	}
	return response{data: clip(found, offset, limit), total: &total, links: l}, nil
}

// run returns the run that the path names.
func (c *call) run() (*run, error) {
	r := c.organization.find(c.ids[0])
	if r == nil {
		return nil, refuse(http.StatusNotFound, "there is no run with this id")
	}
	return r, nil
}

func getRun(c *call) (response, error) {
	r, err := c.run()
	if err != nil {
		return response{}, err
	}
	now := c.organization.now
	return response{data: detailedRun{r.data(now), r.phases(now), nonNil(r.events(now))}}, nil
}

// listEvents lists events with a greater seq than afterSeq, in order. links.next is
// where to poll from then on; the event execution.completed or execution.failed is
// the last one. meta.total counts all events until now.
func listEvents(c *call) (response, error) {
	p := c.params()
	after := p.integer("afterSeq", 0, 0, maxOffset)
	limit := p.integer("limit", 100, 1, 500)
	if err := p.err(); err != nil {
		return response{}, err
	}
	r, err := c.run()
	if err != nil {
		return response{}, err
	}
	all := r.events(c.organization.now)
	page := nonNil(clip(all, after, limit)) // seq is the index plus one
	next := after
	if len(page) > 0 {
		next = page[len(page)-1].Seq
	}
	total := len(all)
	link := func(seq int) string {
		return c.linkTo("/executions/"+url.PathEscape(r.id)+"/agent-events", map[string]int{"afterSeq": seq, "limit": limit})
	}
	return response{data: page, total: &total, links: &links{Self: link(after), Next: link(next)}}, nil
}

// nonNil returns items that JSON shows as an array.
func nonNil[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
