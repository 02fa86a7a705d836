// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"encoding/json"
	"time"
)

// Installation connects an organization to a source host.
type Installation struct {
	ID             string // UUID
	OrganizationID string
	Provider       string // "git", "local", "github", "gitlab", "gitea"
	ExternalID     string // of the installation or user at github, gitlab or gitea; "" at other providers
	Account        string // the owner at the host, or the host's name; at most 256 bytes
	OwnerID        int64  // of an organization at github: the id there of the user that connected it; 0 if not known
	Status         string // "active", "suspended", "failed"
	// Credential is encrypted with the secret key of the installation's store. It is empty if the source needs none.
	Credential []byte
	// Write reports whether runs may push branches of their own and open pull requests.
	Write     bool
	CreatedAt time.Time
	CreatedBy string // subject of the caller
	LastError string // the last failure of the source, without credentials; "" after a success; a message
}

// Values of Installation.Status and Repository.Access.
const (
	InstallationActive    = "active"
	InstallationSuspended = "suspended" // by the source host; there are no scheduled reviews
	InstallationFailed    = "failed"

	AccessGranted = "granted"
	AccessDenied  = "denied" // the source host has withdrawn it; there are no scheduled reviews
)

// OnboardingState is the request to a source host to authorize an organization. It is valid once.
type OnboardingState struct {
	Hash           [32]byte // SHA-256 of the state, which the host sends back
	OrganizationID string
	Provider       string
	Verifier       string // of PKCE
	CreatedBy      string // subject of the caller
	Write          bool   // of the installation that it leads to
	ExpiresAt      time.Time
}

// Repository is a repository of an installation.
type Repository struct {
	ID             string // UUID
	OrganizationID string
	InstallationID string
	FullName       string // "owner/name", or the last part of the clone URL; unique in its installation
	URL            string // clone URL without credentials, or the path of a local directory
	DefaultBranch  string // "" until the first checkout
	Active         bool
	Access         string // "granted", "denied", "unknown"
	ReviewedAt     time.Time
	ReviewedCommit string
	CreatedAt      time.Time
	Settings       RepositorySettings
	// Instrumentation is the JSON of instrumentation_metadata of the last review, nil before it.
	Instrumentation json.RawMessage
	// Findings counts the active findings that are not dismissed, by severity. Stores fill it in.
	Findings map[string]int
}

// RepositorySettings are an organization's instructions for a repository.
type RepositorySettings struct {
	ReviewInstructions string   `json:"review_instructions"`
	FixInstructions    string   `json:"fix_instructions"`
	Ignore             []string `json:"ignore"`
	DisabledChecks     []string `json:"disabled_checks"`
	// Services are the services whose telemetry the repository's code sends, chosen by a user.
	Services []string `json:"services"`
	// TestCommand is the shell command that runs the repository's tests, "" for the command that its manifests suggest.
	TestCommand string `json:"test_command"`
}

// Types of runs.
const (
	RunReview          = "review"
	RunFix             = "fix"
	RunInstrumentation = "instrumentation"
	RunMigration       = "partner-migrate-execute"
)

// Statuses of runs.
const (
	RunPending   = "pending"
	RunRunning   = "running"
	RunCompleted = "completed"
	RunFailed    = "failed"
	RunCancelled = "cancelled"
)

// Triggers of runs.
const (
	TriggerManual    = "manual"
	TriggerScheduled = "scheduled"
	TriggerPush      = "push"
)

// Run is a run of the agent on a repository.
type Run struct {
	ID             string // UUID
	OrganizationID string
	RepositoryID   string
	InstallationID string // of the repository
	RepositoryName string // full name of the repository when the run was scheduled
	Type           string
	Status         string
	Trigger        string
	Ref            string // "" for the default branch
	Commit         string // "" until checked out
	Phase          string // the current or last phase, "" before the first
	PhaseTimes     []RunPhase
	CreatedAt      time.Time
	StartedAt      time.Time
	EndedAt        time.Time
	SeenAt         time.Time       // when the replica that runs it last renewed its lease or saved it
	Input          json.RawMessage // options of the caller
	Result         json.RawMessage // nil until there is one
	Error          string          // why it failed, for the caller; a message
	Cancel         bool            // a caller asked for its end
}

// RunPhase is a phase that has begun.
type RunPhase struct {
	Key     string    `json:"key"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"` // zero while it runs
}

// RunEvent is an entry of a run's timeline.
type RunEvent struct {
	Seq        int64 // from 0, without gaps
	At         time.Time
	Name       string // "phase", "finding", "note", "agent"
	Message    string
	Phase      string
	Transition string          // "started", "completed", "failed", ""
	Payload    json.RawMessage // of an agent event, otherwise nil
}

// CodeFinding is a place in a repository's code that a review reports.
type CodeFinding struct {
	ID             string // "otel-" and 12 hexadecimal digits; unique in its repository
	OrganizationID string
	RepositoryID   string
	RunID          string // the last run that reported it; it may have expired
	Check          string
	Severity       string // "critical", "high", "medium", "low", "suggestion"
	Category       string
	Service        string   // the service whose telemetry it explains, "" if unknown
	InsightIDs     []string // UUIDs; stores keep the first MaxFindingInsights
	// Body is the JSON of the fields that a review determines: title, summary, why, fix, rules, locations and so on.
	Body            json.RawMessage
	Resolved        bool
	Dismissed       bool
	DismissedReason string // a message
	CreatedAt       time.Time
	ResolvedAt      time.Time // zero while active
	CodeFix
}

// CodeFix is the state of the fix of a finding.
type CodeFix struct {
	FixStatus   string // "" or one of the values below
	FixNote     string // a sentence on the effect of a merged fix on telemetry; "" before
	PullRequest int    // number at the source host, 0 if none
	PullStatus  string // "" or one of the values below
}

// Values of CodeFix.
const (
	FixProposed  = "proposed"
	FixMerged    = "merged"
	FixConfirmed = "confirmed" // merged, and telemetry passes the rules
	FixRefuted   = "refuted"   // merged, and telemetry still fails a rule

	PullOpen   = "open"
	PullMerged = "merged"
	PullClosed = "closed" // without a merge
)

// Limits of an organization's codebase.
const (
	MaxInstallations    = 100
	MaxOnboardingStates = 20     // the newest
	MaxConnections      = 100    // of different organizations to one repository or installation at a source host
	MaxRepositories     = 1000   // known ones; --agent-max-repositories limits the active ones
	MaxRepositoryRuns   = 100    // kept of a repository, newest first
	MaxPendingRuns      = 10     // of a repository
	MaxRunClaims        = 10     // of a run, without released ones; then the run fails, since it may crash the replicas
	MaxRunEvents        = 10_000 // of a run
	MaxFindings         = 10_000 // active ones of a repository, and as many resolved ones
	MaxFindingInsights  = 20     // of a finding
	MaxReviewInsights   = 10_000 // of all findings of a review, by which FindingFilter.InsightID finds them
	MaxCodebasePage     = 1000   // entries of a page of runs or findings
)

// Limits of texts in bytes. Any text may hold any bytes.
const (
	MaxFindingBytes      = 16 << 10 // of a finding's body
	MaxReviewBytes       = 16 << 20 // of the bodies of a review's findings
	MaxDocumentBytes     = 16 << 10 // of settings, instrumentation, phase times, and a run's input and result
	MaxEventPayloadBytes = 4 << 10
	MaxPatchBytes        = 1 << 20  // of a run
	MaxMessageBytes      = 1 << 10  // of a message; stores truncate longer ones
	MaxCredentialBytes   = 64 << 10 // of an installation
	MaxCodeTextBytes     = 2 << 10  // of any other text
)

// ModelUsage is the usage of a language model for changes of code. Cost is in millionths of the currency of the prices.
type ModelUsage struct{ Tokens, Cost int64 }

// RunFilter selects runs of an organization. Zero fields select all. An unknown id selects none. A page has at most
// MaxCodebasePage runs.
type RunFilter struct {
	Statuses, Types []string
	RepositoryID    string
	Limit, Offset   int
}

// FindingFilter selects findings of an organization. Zero fields select all. An unknown id selects none. A page has at
// most MaxCodebasePage findings.
type FindingFilter struct {
	RunID, RepositoryID    string
	Severities, Categories []string
	Status                 string // "active", "resolved", "all"; "" is "active"
	Dismissed              bool   // include dismissed ones
	InsightID              string
	FindingID              string // with RepositoryID
	PullStatus             string // of the pull request of its fix
	Limit, Offset          int
}

// FacetCount is the number of active findings with a value.
type FacetCount struct {
	Value string
	Count int
}

// CodebaseStore stores the data of the agent on repositories. All methods are safe for concurrent use by any number of
// processes. Unknown ids and ids of another organization give CodeNotFound; lists of an unknown organization are
// empty. Values beyond a limit, ids that are no UUIDs and invalid JSON give CodeInvalid; messages are truncated.
type CodebaseStore interface {
	// SaveInstallation creates an installation, or replaces the one with its id, which keeps its time and author. It
	// sets an empty id, and the creation time. CodeConflict at MaxInstallations.
	SaveInstallation(ctx context.Context, i *Installation) error
	// Installations returns an organization's installations, oldest first.
	Installations(ctx context.Context, organizationID string) ([]*Installation, error)
	// SetInstallationState sets status and last error of an installation.
	SetInstallationState(ctx context.Context, organizationID, id, status, lastError string) error
	// ReplaceCredential replaces the credential of an installation if it still is old. It returns whether it was.
	ReplaceCredential(ctx context.Context, organizationID, id string, old, credential []byte) (bool, error)
	// ConnectedInstallations returns the installations of all organizations with an id at a provider, at most
	// MaxConnections.
	ConnectedInstallations(ctx context.Context, provider, externalID string) ([]*Installation, error)
	// DeleteInstallation deletes an installation with its repositories, runs and findings, in short transactions. It
	// ends their runs first. After an interruption, another call continues.
	DeleteInstallation(ctx context.Context, organizationID, id string) error

	// SaveRepositories creates inactive repositories with their settings. If the full name exists in the installation, it
	// updates URL, access and, unless the argument's is empty, the default branch instead. It sets the ids of the arguments.
	// CodeConflict at MaxRepositories.
	SaveRepositories(ctx context.Context, organizationID string, repos []*Repository) error
	// Repositories returns an organization's repositories by installation and name, with counts of findings.
	Repositories(ctx context.Context, organizationID string) ([]*Repository, error)
	Repository(ctx context.Context, organizationID, id string) (*Repository, error)
	// ConnectedRepositories returns the active repositories of all organizations with a full name at a provider, at most
	// MaxConnections.
	ConnectedRepositories(ctx context.Context, provider, fullName string) ([]*Repository, error)
	// ActivateRepositories makes all repositories with these ids active or inactive, or none. It returns the number of
	// active repositories. CodeConflict if more than limit would be active.
	ActivateRepositories(ctx context.Context, organizationID string, ids []string, active bool, limit int) (int, error)
	// StartOnboarding records that an onboarding session was created.
	StartOnboarding(ctx context.Context, organizationID string) error
	// SaveOnboardingState saves a state. An organization keeps the MaxOnboardingStates that expire last.
	SaveOnboardingState(ctx context.Context, s *OnboardingState) error
	// OnboardingState returns the state with a hash. CodeNotFound if there is none or it has expired.
	OnboardingState(ctx context.Context, hash [32]byte, now time.Time) (*OnboardingState, error)
	// TakeOnboardingState is OnboardingState and deletes the state: one of several callers gets it.
	TakeOnboardingState(ctx context.Context, hash [32]byte, now time.Time) (*OnboardingState, error)
	// CompleteOnboarding is ActivateRepositories, and records in the same transaction that onboarding is completed.
	// CodeConflict if it was completed before.
	CompleteOnboarding(ctx context.Context, organizationID string, ids []string, limit int) (int, error)
	// Onboarding returns "not_started", "in_progress" or "completed".
	Onboarding(ctx context.Context, organizationID string) (string, error)
	// SaveRepositorySettings replaces the settings of a repository.
	SaveRepositorySettings(ctx context.Context, organizationID, id string, s RepositorySettings) error
	// DueRepositories returns at most limit active repositories of all organizations, longest overdue first. A
	// repository is due if its last review of the default branch was created or refused, and its last completed one began,
	// before a time.
	// Repositories whose access is denied, and repositories of suspended installations, are not due.
	DueRepositories(ctx context.Context, before time.Time, limit int) ([]*Repository, error)

	// ScheduleRun creates a pending run from organization, repository, type, trigger, ref and input, and the id unless
	// it is empty. If a run of its type with its ref and input is pending for its repository, it returns that one and
	// false. CodeConflict at MaxPendingRuns, and if ExpireCodebase is far behind.
	ScheduleRun(ctx context.Context, r *Run) (scheduled *Run, created bool, err error)
	// ClaimRun gives the holder the oldest run that is pending, or whose lease has expired, and whose repository has no
	// other running run; organizations with fewer running runs, and then with less recent run time, go first. The lease
	// lasts ttl by the store's clock, at most delta.MaxLease. nil if there is none. A run that has been
	// claimed MaxRunClaims times fails instead.
	ClaimRun(ctx context.Context, holder string, ttl time.Duration) (*Run, error)
	// RenewRun renews the lease; a ttl of 0 releases it, so that another holder continues the run, and the claim does not
	// count. It reports whether the run is to be cancelled; delta.ErrLeaseLost if another holder has the run, or it has
	// ended or is deleted.
	RenewRun(ctx context.Context, holder, id string, ttl time.Duration) (cancel bool, err error)
	// UpdateRun saves status, commit, phase, phase times, result, error and end of a run, and appends events in the
	// same transaction. The store sets Seq and At of the events, and the end of a run that has none. Events beyond
	// MaxRunEvents are dropped. ErrLeaseLost as in RenewRun. A run that ends releases its lease.
	UpdateRun(ctx context.Context, holder string, r *Run, events []RunEvent) error
	// CancelRun ends a pending run, and requests the end of a running one. It does not change a run that has ended.
	CancelRun(ctx context.Context, organizationID, id string) error
	Run(ctx context.Context, organizationID, id string) (*Run, error)
	// Runs returns a page of runs, newest first, and how many there are.
	Runs(ctx context.Context, organizationID string, f RunFilter) (page []*Run, total int, err error)
	// RunEvents returns at most limit events after a sequence number, and the latest number, -1 if there is none.
	RunEvents(ctx context.Context, organizationID, runID string, after int64, limit int) (events []RunEvent, latest int64, err error)

	// SaveReview replaces the active findings of a repository by the findings of a review and saves what the review found
	// (instrumentation, and default branch and access unless empty), in transactions that check the run's lease. Until the
	// last one, readers see a part of the findings; a review that fails in between is completed by the next one.
	// The review is as of the run's start and of the argument's commit. Findings with a known id are active again and
	// keep creation time, dismissal, fix and pull request. Findings that come back after their fix was merged or refuted
	// get fix and pull request of the argument. Findings that are missing are resolved. The store keeps at most MaxFindings
	// with MaxReviewBytes, the worst first. FindingFilter.InsightID finds the worst by their insights, see MaxReviewInsights.
	// ErrLeaseLost as in RenewRun.
	SaveReview(ctx context.Context, holder string, r *Run, repo *Repository, findings []*CodeFinding) error
	// SaveFix saves the state of the fix of findings of the run's repository. Unknown ids have no effect. ErrLeaseLost
	// as in RenewRun.
	SaveFix(ctx context.Context, holder, runID string, ids []string, f CodeFix) error
	// SavePatch saves the changes of a run, at most MaxPatchBytes. ErrLeaseLost as in RenewRun.
	SavePatch(ctx context.Context, holder, runID string, patch []byte) error
	// Patch returns the changes of a run. CodeNotFound if there are none.
	Patch(ctx context.Context, organizationID, runID string) ([]byte, error)
	// SpendModel adds usage to the usage of the UTC day of at. If the sum would exceed a nonzero limit, it adds nothing
	// and returns false. Negative usage returns reserved usage.
	SpendModel(ctx context.Context, organizationID string, at time.Time, usage, limit ModelUsage) (bool, error)
	// Findings returns a page of findings, worst first, then by repository and id, and how many there are.
	Findings(ctx context.Context, organizationID string, f FindingFilter) (page []*CodeFinding, total int, err error)
	// CountFindings counts the active findings that are not dismissed, by severity and by category.
	CountFindings(ctx context.Context, organizationID string) (severities, categories []FacetCount, err error)
	// DismissFinding marks a finding as dismissed or not.
	DismissFinding(ctx context.Context, organizationID, repositoryID, findingID string, dismissed bool, reason string) error
	// ExpireCodebase deletes runs that have ended beyond MaxRepositoryRuns, findings resolved before a time, and
	// onboarding states that have expired before it, in short transactions.
	ExpireCodebase(ctx context.Context, resolvedBefore time.Time) error
}
