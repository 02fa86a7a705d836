// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"assay"
	"assay/internal/lists"
)

// severities are the severities of findings, worst first.
var severities = []string{"critical", "high", "medium", "low", "suggestion"}

// severityCount is how many findings have a severity.
type severityCount struct {
	Severity string
	Count    int
}

// counts returns the counts of a repository that are not zero, worst first.
func (r agentRepository) counts() []severityCount {
	var all []severityCount
	for _, s := range severities {
		if n := r.Counts[s]; n > 0 {
			all = append(all, severityCount{s, n})
		}
	}
	return all
}

// repositoriesPage is the list of repositories.
type repositoriesPage struct {
	Installations []repositoryGroup
	MayConnect    bool
}

type repositoryGroup struct {
	agentInstallation
	Rows []repositoryRow
}

type repositoryRow struct {
	agentRepository
	Severities []severityCount
}

func (h *Handler) repositories(q *request) error {
	installations, err := q.listRepositories()
	if err != nil {
		return err
	}
	page := repositoriesPage{MayConnect: q.mayConnect()}
	for _, i := range installations {
		rows := lists.Map(i.Repos, func(r agentRepository) repositoryRow { return repositoryRow{r, r.counts()} })
		page.Installations = append(page.Installations, repositoryGroup{agentInstallation: i, Rows: rows})
	}
	return q.render(http.StatusOK, "repositories", view{Title: "Repositories", Section: "code", Live: liveSeconds, Data: page})
}

// mayConnect reports whether the session may connect sources: sessions of users and administrators may.
func (q *request) mayConnect() bool { return q.session.User() || q.session.Admin() }

// repositoryPage is one repository.
type repositoryPage struct {
	agentRepository
	Severities      []severityCount
	Instrumentation *agentInstrumentation // nil before the first review
	List            []agentFinding
	Runs            []agentRun
	Settings        *repositoryForm // nil: this session may not see them
	Fixable         []agentFinding  // that a fix may be started for, the first shownFixes
	Problem         string
	Running         bool
	Enterprise      bool // the tier for which the agent of assay migrates; another agent has its own plans
}

// repositoryForm is the form with the settings of a repository: one entry a line.
type repositoryForm struct{ ReviewInstructions, FixInstructions, Ignore, DisabledChecks, Services, TestCommand string }

// repositoryDetail is the answer with a repository.
type repositoryDetail struct {
	Repository      agentRepository       `json:"repository"`
	Instrumentation *agentInstrumentation `json:"instrumentation_metadata"`
	Findings        []agentFinding        `json:"findings"`
}

const (
	shownFindings = 100 // of a repository; the list of findings has all
	shownRuns     = 10
	shownFixes    = 10 // as many as a run takes
)

// repositoryID returns the id of the repository in the address.
func (q *request) repositoryID() (string, error) {
	id := q.r.PathValue("id")
	if uuid.Validate(id) != nil {
		return "", assay.Errorf(assay.CodeNotFound, "no such repository")
	}
	return id, nil
}

func (q *request) findRepository() (*repositoryDetail, error) {
	id, err := q.repositoryID()
	if err != nil {
		return nil, err
	}
	detail := new(repositoryDetail)
	return detail, q.callAgent("get-repository", http.MethodGet, "/repositories/"+id, nil, nil, detail)
}

func (h *Handler) repository(q *request) error { return q.showRepository(http.StatusOK, "", nil) }

// showRepository shows a repository. Refused settings, if any, replace the stored ones in the form.
func (q *request) showRepository(status int, problem string, refused *assay.RepositorySettings) error {
	detail, err := q.findRepository()
	if err != nil {
		return err
	}
	r := detail.Repository
	page := repositoryPage{
		agentRepository: r, Severities: r.counts(), Instrumentation: detail.Instrumentation,
		List: detail.Findings[:min(len(detail.Findings), shownFindings)], Problem: problem,
	}
	for _, f := range detail.Findings {
		if (f.Fixable || q.cfg.AgentModel) && !f.Dismissed && f.FixStatus == "" && len(page.Fixable) < shownFixes {
			page.Fixable = append(page.Fixable, f)
		}
	}
	if page.Runs, err = q.runsOf(r.ID); err != nil {
		return err
	}
	organization, err := q.cfg.Organizations.FindOrganizationByID(q.ctx, q.organization())
	if err != nil {
		return err
	}
	page.Enterprise = organization.Tier == assay.TierEnterprise
	page.Running = slices.ContainsFunc(page.Runs, func(r agentRun) bool { return r.Status == "pending" || r.Status == "running" })
	if q.session.User() {
		s := refused
		if s == nil {
			s = new(assay.RepositorySettings)
			if err := q.callAgent("get-repository-settings", http.MethodGet, "/repositories/"+r.ID+"/settings", nil, nil, s); err != nil {
				return err
			}
		}
		page.Settings = &repositoryForm{
			s.ReviewInstructions, s.FixInstructions, strings.Join(s.Ignore, "\n"), strings.Join(s.DisabledChecks, "\n"), strings.Join(s.Services, "\n"), s.TestCommand,
		}
	}
	return q.render(status, "repository", view{Title: plain(r.Name), Section: "code", Live: liveSeconds, Data: page})
}

// answerForm redirects to a repository, or shows its page with the agent's refusal and the settings it refused, if any.
func (q *request) answerForm(id string, err error, settings *assay.RepositorySettings) error {
	switch {
	case err == nil:
		return q.redirect("/repositories/" + id)
	case refused(err):
		return q.showRepository(http.StatusConflict, messageOf(err, "The agent refused that."), settings)
	case assay.ErrorCode(err) == assay.CodeForbidden: // such as a migration that the plan does not have
		return q.showRepository(http.StatusForbidden, messageOf(err, "The agent refused that."), settings)
	}
	return err
}

// activate activates or deactivates a repository.
func (h *Handler) activate(active bool) func(*request) error {
	return func(q *request) error {
		id, err := q.repositoryID()
		if err != nil {
			return err
		}
		body := map[string]bool{"is_active": active}
		return q.answerForm(id, q.callAgent("update-repository", http.MethodPatch, "/repositories/"+id, nil, body, nil), nil)
	}
}

// review schedules a review of a repository and shows its run.
func (h *Handler) review(q *request) error {
	id, err := q.repositoryID()
	if err != nil {
		return err
	}
	return q.schedule(id, "execute-codebase-review", "/codebase/review/execute", map[string]any{"repo_id": id})
}

// saveSettings replaces the settings of a repository.
func (h *Handler) saveSettings(q *request) error {
	if !q.session.User() {
		return assay.Errorf(assay.CodeForbidden, "Changing settings of a repository needs a session of a user.")
	}
	id, err := q.repositoryID()
	if err != nil {
		return err
	}
	if err := q.readForm(); err != nil {
		return err
	}
	lines := func(name string) []string {
		all := []string{}
		for line := range strings.Lines(q.r.PostFormValue(name)) {
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, line)
			}
		}
		return all
	}
	s := &assay.RepositorySettings{
		ReviewInstructions: strings.TrimSpace(q.r.PostFormValue("review_instructions")), FixInstructions: strings.TrimSpace(q.r.PostFormValue("fix_instructions")),
		Ignore: lines("ignore"), DisabledChecks: lines("disabled_checks"), Services: lines("services"),
		TestCommand: strings.TrimSpace(q.r.PostFormValue("test_command")),
	}
	return q.answerForm(id, q.callAgent("update-repository-settings", http.MethodPut, "/repositories/"+id+"/settings", nil, s, nil), s)
}

// connectPage is the form for a new source.
type connectPage struct {
	Hosts         []option // source hosts that this session can authorize
	Kinds         []option
	Kind, Address string
	Write         bool
	Problem       string
}

func (h *Handler) connect(q *request) error {
	if !q.mayConnect() || !q.hasAgent() {
		return assay.Errorf(assay.CodeForbidden, "Connecting a repository needs a session of a user, or of a key with the scopes agent and admin.")
	}
	return q.showConnect(http.StatusOK, connectPage{Kind: "git"})
}

// sourceHosts are the names of kinds of source hosts at which users authorize.
var sourceHosts = map[string]string{"github": "GitHub", "gitlab": "GitLab", "gitea": "Gitea or Forgejo"}

func (q *request) showConnect(status int, page connectPage) error {
	if q.session.User() {
		var onboarding struct {
			Kinds []string `json:"kinds"`
		}
		if err := q.callAgent("get-onboarding-status", http.MethodGet, "/onboarding/status", nil, nil, &onboarding); err != nil {
			return err
		}
		for _, kind := range onboarding.Kinds {
			if name := sourceHosts[kind]; name != "" {
				page.Hosts = append(page.Hosts, option{Value: kind, Label: name})
			}
		}
	}
	page.Kinds = options(page.Kind, option{Value: "git", Label: "Git, by URL"}, option{Value: "local", Label: "Directory on the server"})
	return q.render(status, "connect", view{Title: "Connect a repository", Section: "code", Data: page})
}

// authorize sends the browser to a source host, which sends it back to the agent.
func (h *Handler) authorize(q *request) error {
	kind := q.r.PathValue("kind")
	if sourceHosts[kind] == "" {
		return assay.Errorf(assay.CodeNotFound, "There is no page at this address.")
	}
	if !q.session.User() {
		return assay.Errorf(assay.CodeForbidden, "Connecting a source host needs a session of a user.")
	}
	// The form uses GET, because the response redirects to another site. It changes state, so check the origin of the
	// request.
	if site := q.r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return q.redirect("/repositories/connect")
	}
	var session struct {
		URL string `json:"installation_url"`
	}
	err := q.callAgent("create-onboarding-session", http.MethodPost, "/onboarding/session", nil, map[string]any{"kind": kind, "write": q.r.URL.Query().Has("write")}, &session)
	switch {
	case refused(err):
		return q.showConnect(http.StatusConflict, connectPage{Kind: "git", Problem: messageOf(err, "The source host cannot be connected.")})
	case err != nil:
		return err
	case !strings.HasPrefix(session.URL, "https://"):
		return &assay.Error{Code: assay.CodeUpstream, Message: "the agent's answer has another shape"}
	}
	return q.redirect(session.URL)
}

// connectRepository connects a source and activates its repositories.
func (h *Handler) connectRepository(q *request) error {
	if !q.mayConnect() {
		return assay.Errorf(assay.CodeForbidden, "Connecting a repository needs a session of a user, or of a key with the scope admin.")
	}
	if err := q.readForm(); err != nil {
		return err
	}
	page := connectPage{Kind: q.r.PostFormValue("kind"), Address: strings.TrimSpace(q.r.PostFormValue("address")), Write: q.r.PostForm.Has("write")}
	body := map[string]any{"kind": page.Kind, "url": page.Address, "token": strings.TrimSpace(q.r.PostFormValue("token")), "write": page.Write}
	var made struct {
		Repositories []agentRepository `json:"repositories"`
	}
	err := q.callAgent("create-agent-installation", http.MethodPost, "/onboarding/installations", nil, body, &made)
	if err == nil && len(made.Repositories) == 1 {
		id := made.Repositories[0].ID
		err = q.callAgent("update-repository", http.MethodPatch, "/repositories/"+id, nil, map[string]bool{"is_active": true}, nil)
		if err == nil {
			return q.redirect("/repositories/" + id)
		}
	}
	switch {
	case err == nil:
		return q.redirect("/repositories")
	case refused(err):
		page.Problem = messageOf(err, "The source cannot be connected.")
		return q.showConnect(http.StatusBadRequest, page)
	}
	return err
}
