// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"encoding/json"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// SaveRepositories implements assay.CodebaseStore.
func (q *Queries) SaveRepositories(ctx context.Context, organizationID string, repos []*assay.Repository) error {
	type row struct {
		id       string
		settings []byte
	}
	if len(repos) > assay.MaxRepositories {
		return errManyRepositories()
	}
	rows, found := make([]row, len(repos)), make([]ID, len(repos))
	installations := make(map[string]bool)
	for i, r := range repos {
		var err error
		if rows[i].settings, err = encodeSettings(r.Settings); err != nil {
			return err
		}
		if err := checkSizes("repository", assay.MaxCodeTextBytes, r.FullName, r.URL, r.DefaultBranch, r.Access); err != nil {
			return err
		}
		if rows[i].id, err = checkID(""); err != nil {
			return err
		}
		installations[r.InstallationID] = true
	}
	err := q.updateOrganization(ctx, "save repositories", organizationID, func(tx Tx, org int64, now time.Time) error {
		byID := make(map[string]int64)
		b := new(Batch)
		for id := range installations {
			b.Query(func(r Row) error {
				var row int64
				err := r.Scan(&row)
				byID[id] = row
				return err
			}, `SELECT installation FROM installations WHERE id = $1 AND org = $2`, ID(id), org)
		}
		if err := tx.Send(ctx, b); err != nil {
			return err
		}
		if len(byID) < len(installations) {
			return errNoInstallation()
		}
		b = new(Batch)
		for i, r := range repos {
			b.Query(func(r Row) error { return r.Scan(&found[i]) },
				`INSERT INTO repositories (id, org, installation, full_name, url, default_branch, active, access, created_at, settings)
				VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9)
				ON CONFLICT (installation, full_name) DO UPDATE SET url = excluded.url, access = excluded.access,
					default_branch = CASE excluded.default_branch WHEN '' THEN repositories.default_branch ELSE excluded.default_branch END
				RETURNING id`,
				ID(rows[i].id), org, byID[r.InstallationID], Text(r.FullName), Text(r.URL), Text(r.DefaultBranch), Text(r.Access), Micros(now), rows[i].settings)
		}
		var n int
		b.Query(func(r Row) error { return r.Scan(&n) }, `SELECT count(*) FROM repositories WHERE org = $1`, org)
		if err := tx.Send(ctx, b); err != nil {
			return err
		}
		if n > assay.MaxRepositories {
			return errManyRepositories()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, r := range repos {
		r.ID, r.OrganizationID = string(found[i]), organizationID
	}
	return nil
}

func errManyRepositories() error {
	return assay.Errorf(assay.CodeConflict, "an organization has at most %d repositories", assay.MaxRepositories)
}

func encodeSettings(s assay.RepositorySettings) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, assay.Errorf(assay.CodeInvalid, "encode the settings of a repository: %w", err)
	}
	return b, checkJSON("settings of a repository", assay.MaxDocumentBytes, b)
}

// repositoryReader reads repositories and the numbers of their findings.
type repositoryReader struct {
	found []*assay.Repository
	byRow map[int64]*assay.Repository
	rows  []int64
}

// read adds a query for repositories r, with conditions, an order and a limit.
func (rr *repositoryReader) read(b *Batch, where string, args ...any) {
	*rr = repositoryReader{byRow: make(map[int64]*assay.Repository)}
	b.Query(func(row Row) error {
		var (
			repo, active              int64
			settings, instrumentation []byte
			r                         = &assay.Repository{Findings: make(map[string]int)}
		)
		if err := row.Scan(&repo, (*ID)(&r.ID), (*ID)(&r.OrganizationID), (*ID)(&r.InstallationID), (*Text)(&r.FullName), (*Text)(&r.URL),
			(*Text)(&r.DefaultBranch), &active, (*Text)(&r.Access), (*Time)(&r.ReviewedAt), (*Text)(&r.ReviewedCommit), (*Time)(&r.CreatedAt),
			&settings, &instrumentation); err != nil {
			return err
		}
		if err := json.Unmarshal(settings, &r.Settings); err != nil {
			return err
		}
		r.Active, r.Instrumentation = active != 0, instrumentation
		rr.found, rr.rows, rr.byRow[repo] = append(rr.found, r), append(rr.rows, repo), r
		return nil
	}, `SELECT r.repo, r.id, o.id, i.id, r.full_name, r.url, r.default_branch, r.active, r.access, r.reviewed_at, r.reviewed_commit, r.created_at,
			r.settings, r.instrumentation
		FROM repositories r JOIN organizations o ON o.org = r.org JOIN installations i ON i.installation = r.installation `+where, args...)
}

// count adds the query for the active findings that are not dismissed.
func (rr *repositoryReader) count(q *Queries, b *Batch) {
	if len(rr.rows) == 0 {
		return
	}
	b.Query(func(row Row) error {
		var repo, severity int64
		var n int
		err := row.Scan(&repo, &severity, &n)
		rr.byRow[repo].Findings[severityOf(severity)] += n
		return err
	}, `SELECT repo, severity, n FROM code_finding_counts WHERE `+q.sql.In(`repo`, `$1`)+` AND state = 0`, rr.rows)
}

func (q *Queries) findRepositories(ctx context.Context, operation, where string, args ...any) ([]*assay.Repository, error) {
	var rr repositoryReader
	err := q.engine.View(ctx, connpool.Pages, operation,
		func(b *Batch) { rr.read(b, where, args...) },
		func(b *Batch) { rr.count(q, b) })
	return result(rr.found, err)
}

// Repositories implements assay.CodebaseStore.
func (q *Queries) Repositories(ctx context.Context, organizationID string) ([]*assay.Repository, error) {
	return q.findRepositories(ctx, "list repositories", `WHERE r.org = (SELECT org FROM organizations WHERE id = $1) ORDER BY r.installation, r.full_name`, ID(organizationID))
}

// Repository implements assay.CodebaseStore.
func (q *Queries) Repository(ctx context.Context, organizationID, id string) (*assay.Repository, error) {
	found, err := q.findRepositories(ctx, "find a repository", `WHERE r.id = $1 AND o.id = $2`, ID(id), ID(organizationID))
	if err != nil || len(found) == 0 {
		return nil, orMissing(err, errNoRepository)
	}
	return found[0], nil
}

// DueRepositories implements assay.CodebaseStore.
func (q *Queries) DueRepositories(ctx context.Context, before time.Time, limit int) ([]*assay.Repository, error) {
	return q.findRepositories(ctx, "find due repositories",
		`WHERE r.active = 1 AND r.attempted_at < $1 AND r.access <> $2 AND i.status <> $3 ORDER BY r.attempted_at, r.repo LIMIT CAST($4 AS bigint)`,
		Micros(before), Text(assay.AccessDenied), Text(assay.InstallationSuspended), min(max(limit, 0), assay.MaxRepositories))
}

// ConnectedRepositories implements assay.CodebaseStore.
func (q *Queries) ConnectedRepositories(ctx context.Context, provider, fullName string) ([]*assay.Repository, error) {
	return q.findRepositories(ctx, "find connected repositories",
		`WHERE r.active = 1 AND r.full_name = $1 AND i.provider = $2 ORDER BY r.repo LIMIT CAST($3 AS bigint)`, Text(fullName), Text(provider), assay.MaxConnections)
}

// SaveRepositorySettings implements assay.CodebaseStore.
func (q *Queries) SaveRepositorySettings(ctx context.Context, organizationID, id string, s assay.RepositorySettings) error {
	settings, err := encodeSettings(s)
	if err != nil {
		return err
	}
	return q.update(ctx, connpool.Pages, "save the settings of a repository", errNoRepository,
		`UPDATE repositories SET settings = $1 WHERE id = $2 AND org = (SELECT org FROM organizations WHERE id = $3)`, settings, ID(id), ID(organizationID))
}

// ActivateRepositories implements assay.CodebaseStore.
func (q *Queries) ActivateRepositories(ctx context.Context, organizationID string, ids []string, active bool, limit int) (n int, err error) {
	err = q.updateOrganization(ctx, "activate repositories", organizationID, func(tx Tx, org int64, _ time.Time) error {
		n, err = q.activate(ctx, tx, org, ids, active, limit)
		return err
	})
	return result(n, err)
}

// activate changes repositories of an organization that the transaction has locked.
func (q *Queries) activate(ctx context.Context, tx Tx, org int64, ids []string, active bool, limit int) (n int, err error) {
	distinct := make(map[string]bool, len(ids))
	for _, id := range ids {
		distinct[id] = true
	}
	if len(distinct) > assay.MaxRepositories {
		return 0, errNoRepository()
	}
	var changed int64
	b := new(Batch)
	b.Statements = append(b.Statements, Statement{
		SQL:  `UPDATE repositories SET active = $1 WHERE org = $2 AND id IN (SELECT value FROM ` + q.sql.IDs(`$3`, `p`) + `)`,
		Args: []any{flag(active), org, IDs(ids)}, Changed: &changed,
	})
	b.Query(func(r Row) error { return r.Scan(&n) }, `SELECT count(*) FROM repositories WHERE org = $1 AND active = 1`, org)
	switch err := tx.Send(ctx, b); {
	case err != nil:
		return 0, err
	case changed < int64(len(distinct)):
		return 0, errNoRepository()
	case active && n > limit:
		return 0, assay.Errorf(assay.CodeConflict, "%d repositories would be active, the limit is %d", n, limit)
	}
	return n, nil
}
