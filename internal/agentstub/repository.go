// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"net/http"
	"time"
)

// installation is the source-hosting app as one account has it.
type installation struct {
	id           string
	account      string
	created      time.Time
	repositories []*repository
}

// repository is a repository with what runs left on it.
type repository struct {
	seed
	id           string
	installation *installation
	active       bool
	updated      time.Time

	partner      string // what is left to migrate; "" for nothing
	instrumented bool   // by a run
	lastRun      *run   // that was asked for; nil for none
	pulls        int    // pull requests that were opened
}

func (r *repository) fullName() string { return r.installation.account + "/" + r.name }
func (r *repository) url() string      { return host + r.fullName() }

// The resources.
type (
	installationData struct {
		label
		ID                 string    `json:"id"`
		Account            string    `json:"account"`
		URL                string    `json:"url"`
		CreatedAt          time.Time `json:"created_at"`
		RepositoryCount    int       `json:"repository_count"`
		ActiveRepositories int       `json:"active_repository_count"`
	}
	nestedInstallation struct {
		installationData
		Repositories []repositoryData `json:"repositories"`
	}
	repositoryData struct {
		label
		ID              string              `json:"id"`
		InstallationID  string              `json:"installation_id"`
		Name            string              `json:"name"`
		FullName        string              `json:"full_name"`
		URL             string              `json:"url"`
		DefaultBranch   string              `json:"default_branch"`
		Active          bool                `json:"active"`
		UpdatedAt       time.Time           `json:"updated_at"`
		Instrumentation instrumentationData `json:"instrumentation"`
		ActiveFindings  int                 `json:"active_finding_count"`
		LastExecutionID *string             `json:"last_execution_id"`
	}
	detailedRepository struct {
		repositoryData
		Findings []findingData `json:"active_findings"`
	}
	instrumentationData struct {
		Status   string  `json:"status"` // none, partner or opentelemetry
		Language string  `json:"language"`
		Partner  *string `json:"partner"`
	}
	settingsData struct {
		label
		RepositoryID       string `json:"repository_id"`
		ReviewInstructions string `json:"review_instructions"`
		FixInstructions    string `json:"fix_instructions"`
	}
)

func (in *installation) data() installationData {
	d := installationData{
		ID: in.id, Account: in.account, URL: host + in.account, CreatedAt: in.created, RepositoryCount: len(in.repositories),
	}
	for _, r := range in.repositories {
		if r.active {
			d.ActiveRepositories++
		}
	}
	return d
}

func (o *organization) repositoryData(r *repository) repositoryData {
	d := repositoryData{
		ID: r.id, InstallationID: r.installation.id, Name: r.name, FullName: r.fullName(), URL: r.url(),
		DefaultBranch: defaultBranch, Active: r.active, UpdatedAt: r.updated,
		Instrumentation: instrumentationData{Status: "none", Language: r.language},
		ActiveFindings:  len(o.activeFindings(r)),
	}
	switch {
	case r.partner != "":
		partner := r.partner
		d.Instrumentation.Status, d.Instrumentation.Partner = "partner", &partner
	case r.instrumented:
		d.Instrumentation.Status = "opentelemetry"
	}
	if r.lastRun != nil {
		id := r.lastRun.id
		d.LastExecutionID = &id
	}
	return d
}

func (o *organization) detailedRepository(r *repository) detailedRepository {
	return detailedRepository{o.repositoryData(r), allData(o.activeFindings(r))}
}

func listInstallations(c *call) (response, error) {
	all := []installationData{}
	for _, in := range c.organization.installations {
		all = append(all, in.data())
	}
	return list(all), nil
}

func listRepositories(c *call) (response, error) {
	all := []nestedInstallation{}
	for _, in := range c.organization.installations {
		n := nestedInstallation{installationData: in.data()}
		for _, r := range in.repositories {
			n.Repositories = append(n.Repositories, c.organization.repositoryData(r))
		}
		all = append(all, n)
	}
	return list(all), nil
}

// repository returns the repository that the path names.
func (c *call) repository() (*repository, error) {
	r := c.organization.repositories[c.ids[0]]
	if r == nil {
		return nil, refuse(http.StatusNotFound, "there is no repository with this id")
	}
	return r, nil
}

func getRepository(c *call) (response, error) {
	r, err := c.repository()
	if err != nil {
		return response{}, err
	}
	return response{data: c.organization.detailedRepository(r)}, nil
}

func getSettings(c *call) (response, error) {
	r, err := c.repository()
	if err != nil {
		return response{}, err
	}
	return response{data: settingsData{RepositoryID: r.id, ReviewInstructions: r.review, FixInstructions: r.fix}}, nil
}

// updateRepository activates or deactivates a repository. Runs that were asked for
// before go on.
func updateRepository(c *call) (response, error) {
	var active *bool
	if len(c.body) == 0 { // decode takes it for an empty object
		return response{}, invalid(map[string]string{"body": "must be a JSON object"})
	}
	if err := decode(c.body, fields{"active": &active}); err != nil {
		return response{}, err
	}
	if active == nil {
		return response{}, unprocessable(map[string]string{"active": "is required"})
	}
	r, err := c.repository()
	if err != nil {
		return response{}, err
	}
	if *active && !r.active {
		if err := c.organization.activate(r); err != nil {
			return response{}, err
		}
	}
	if !*active && r.active {
		r.active, r.updated = false, c.organization.now
	}
	return response{data: c.organization.detailedRepository(r)}, nil
}

// activate activates all of some repositories, or none where they would be too many.
func (o *organization) activate(repositories ...*repository) error {
	added := 0
	for _, r := range repositories {
		if !r.active {
			added++
		}
	}
	if o.active()+added > o.limit {
		err := refuse(http.StatusConflict, "the organization would have more active repositories than its limit allows")
		err.details = map[string]string{"limit": number(o.limit), "active": number(o.active())}
		return err
	}
	for _, r := range repositories {
		if !r.active {
			r.active, r.updated = true, o.now
		}
	}
	return nil
}
