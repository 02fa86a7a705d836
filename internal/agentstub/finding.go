// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"
)

// The statuses of findings, and what a filter can say besides.
const (
	findingActive   = "active"
	findingResolved = "resolved"
	findingAll      = "all"
)

// severities in the order of lists, worst first.
var severities = []string{"critical", "high", "medium", "low"}

var categories = []string{"Sensitive Data", "Volume", "Cardinality", "Context Propagation", "Resource Attributes", "Naming"}

// kinds are what a review can find. All of it is invented.
var kinds = []struct{ severity, category, title, recommendation string }{
	{"critical", "Sensitive Data", "An e-mail address is written to a span attribute", "Record an id of the account instead of its address."},
	{"critical", "Sensitive Data", "A log record holds the Authorization header", "Leave credentials out of logs, or redact them where the record is made."},
	{"high", "Sensitive Data", "The full URL of a request is recorded with its query", "Record url.path, and the query only after redaction."},
	{"high", "Volume", "A log record is written for each item of a loop", "Write one record with the number of items after the loop."},
	{"medium", "Volume", "Records of level DEBUG are sent in production", "Set the level of the logger from the environment."},
	{"high", "Cardinality", "A metric has the id of a user among its attributes", "Drop the attribute from the metric and keep it on the span."},
	{"medium", "Cardinality", "The name of a span holds an id", "Use the route for the name and an attribute for the id."},
	{"high", "Context Propagation", "The context is lost when a job is queued", "Inject the trace context into the message and extract it in the worker."},
	{"medium", "Resource Attributes", "The resource has no service.version", "Set service.version from the build."},
	{"low", "Resource Attributes", "The resource has no deployment.environment.name", "Set it in OTEL_RESOURCE_ATTRIBUTES."},
	{"low", "Naming", "An attribute repeats the name of the metric", "Use the name that the semantic conventions have for it."},
}

// finding is something that a review found.
type finding struct {
	id         string
	run        string // id of the run that found it first
	repository *repository
	kind       int
	line       int
	created    time.Time
	resolved   time.Time // zero: it is active
}

// findingData is the resource.
type findingData struct {
	label
	ID             string     `json:"id"`
	ExecutionID    string     `json:"execution_id"`
	RepositoryID   string     `json:"repository_id"`
	Status         string     `json:"status"`
	Severity       string     `json:"severity"`
	Category       string     `json:"category"`
	Title          string     `json:"title"`
	Recommendation string     `json:"recommendation"`
	File           string     `json:"file"`
	Line           int        `json:"line"`
	CreatedAt      time.Time  `json:"created_at"`
	ResolvedAt     *time.Time `json:"resolved_at"`
}

func (f *finding) active() bool { return f.resolved.IsZero() }

func (f *finding) data() findingData {
	k := kinds[f.kind]
	d := findingData{
		ID: f.id, ExecutionID: f.run, RepositoryID: f.repository.id, Status: findingActive,
		Severity: k.severity, Category: k.category, Title: k.title, Recommendation: k.recommendation,
		File: f.repository.file, Line: f.line, CreatedAt: f.created,
	}
	if !f.active() {
		resolved := f.resolved
		d.Status, d.ResolvedAt = findingResolved, &resolved
	}
	return d
}

// allData returns the resources of findings in the order of lists: worst first,
// newest first.
func allData(findings []*finding) []findingData {
	sorted := slices.SortedFunc(slices.Values(findings), func(a, b *finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(severities, kinds[a.kind].severity), slices.Index(severities, kinds[b.kind].severity)),
			b.created.Compare(a.created),
			cmp.Compare(a.id, b.id),
		)
	})
	all := make([]findingData, 0, len(sorted))
	for _, f := range sorted {
		all = append(all, f.data())
	}
	return all
}

// activeFindings returns the active findings of a repository, of all for nil.
func (o *organization) activeFindings(r *repository) []*finding {
	var found []*finding
	for _, f := range o.findings {
		if f.active() && (r == nil || f.repository == r) {
			found = append(found, f)
		}
	}
	return found
}

// review returns what a review of a repository finds: the same at every time, but for
// what was resolved, and nothing that is stored yet.
func (o *organization) review(r *repository, by *run) []*finding {
	var found []*finding
	for kind := range kinds {
		h := fnv.New32a()
		h.Write([]byte(r.fullName() + "\x00" + number(kind)))
		sum := h.Sum32()
		if sum%2 != 0 {
			continue
		}
		id := o.newID("finding", r.id, number(kind))
		i := slices.IndexFunc(o.findings, func(f *finding) bool { return f.id == id })
		switch {
		case i < 0:
			found = append(found, &finding{
				id: id, run: by.id, repository: r, kind: kind, line: 10 + int(sum/2%300), created: by.ends,
			})
		case o.findings[i].active():
			found = append(found, o.findings[i])
		}
	}
	return found
}

// listRunFindings is not in pages: a run has few findings, and an organization at most
// one of each kind and repository.
func listRunFindings(c *call) (response, error) {
	p := c.params()
	id := p.text("executionId")
	status := p.enum("status", findingActive, findingActive, findingResolved, findingAll)
	if err := p.err(); err != nil {
		return response{}, err
	}
	o := c.organization
	found := o.findings
	if id != "" {
		found = nil
		if r := o.find(id); r != nil && r.done {
			found = r.findings
		}
	}
	found = slices.DeleteFunc(slices.Clone(found), func(f *finding) bool {
		return status == findingActive && !f.active() || status == findingResolved && f.active()
	})
	return list(allData(found)), nil
}

// maxPageNumber keeps the offset of a page in an int.
const maxPageNumber = 1_000_000

// listFindings lists active findings, which are those that the summary counts.
func listFindings(c *call) (response, error) {
	p := c.params()
	wantSeverities := p.list("severity", severities...)
	wantCategories := p.list("category", categories...)
	page := p.integer("page", 1, 1, maxPageNumber)
	size := p.integer("page_size", 50, 1, 100)
	if err := p.err(); err != nil {
		return response{}, err
	}
	found := slices.DeleteFunc(c.organization.activeFindings(nil), func(f *finding) bool {
		k := kinds[f.kind]
		return wantSeverities != nil && !slices.Contains(wantSeverities, k.severity) ||
			wantCategories != nil && !slices.Contains(wantCategories, k.category)
	})
	all := allData(found)
	total := len(all)
	last := max(1, (total+size-1)/size)
	link := func(n int) string { return c.linkTo("/findings", map[string]int{"page": n, "page_size": size}) }
	l := &links{Self: link(page), First: link(1), Last: link(last)}
	if page > 1 {
		l.Prev = link(min(page-1, last))
	}
	if page < last {
		l.Next = link(page + 1)
	}
	return response{data: clip(all, (page-1)*size, size), total: &total, links: l}, nil
}

// findingsSummary is the resource.
type findingsSummary struct {
	label
	Total      int            `json:"total"`
	BySeverity map[string]int `json:"by_severity"`
	ByCategory map[string]int `json:"by_category"`
}

func summarizeFindings(c *call) (response, error) {
	d := findingsSummary{BySeverity: map[string]int{}, ByCategory: map[string]int{}}
	for _, s := range severities {
		d.BySeverity[s] = 0
	}
	for _, s := range categories {
		d.ByCategory[s] = 0
	}
	for _, f := range c.organization.activeFindings(nil) {
		d.Total++
		d.BySeverity[kinds[f.kind].severity]++
		d.ByCategory[kinds[f.kind].category]++
	}
	return response{data: d}, nil
}
