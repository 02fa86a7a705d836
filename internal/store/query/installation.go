// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"slices"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// maxAccount is the maximum length of the account of an installation in bytes.
const maxAccount = 256

// Limits of the rows that one transaction deletes, so that its duration does not depend on their sizes.
const (
	documentRows = 200     // rows with documents: runs and findings
	patchesBytes = 8 << 20 // of patches
)

const errDisconnected = "the installation is being disconnected"

// SaveInstallation implements assay.CodebaseStore.
func (q *Queries) SaveInstallation(ctx context.Context, i *assay.Installation) error {
	id, err := checkID(i.ID)
	if err != nil {
		return err
	}
	if err := checkSizes("installation", maxAccount, i.Account); err != nil {
		return err
	}
	if err := checkSizes("installation", assay.MaxCodeTextBytes, i.Provider, i.ExternalID, i.Status, i.CreatedBy); err != nil {
		return err
	}
	if err := checkSizes("installation", assay.MaxCredentialBytes, string(i.Credential)); err != nil {
		return err
	}
	saved := *i
	saved.ID = id
	err = q.updateOrganization(ctx, "save an installation", i.OrganizationID, func(tx Tx, org int64, now time.Time) error {
		var (
			owner int64
			n     int
		)
		b := new(Batch)
		b.Query(func(r Row) error { return r.Scan(&owner, (*Time)(&saved.CreatedAt), (*Text)(&saved.CreatedBy)) },
			`SELECT org, created_at, created_by FROM installations WHERE id = $1`, ID(id))
		b.Query(func(r Row) error { return r.Scan(&n) }, `SELECT count(*) FROM installations WHERE org = $1`, org)
		if err := tx.Send(ctx, b); err != nil {
			return err
		}
		switch {
		case owner == org:
			_, err := exec(ctx, tx, `UPDATE installations SET provider = $1, account = $2, status = $3, credential = $4, last_error = $5, external_id = $6, writable = $7, owner_id = $8 WHERE id = $9`,
				Text(i.Provider), Text(i.Account), Text(i.Status), document(i.Credential), message(i.LastError), Text(i.ExternalID), flag(i.Write), i.OwnerID, ID(id))
			return err
		case owner != 0:
			return errNoInstallation()
		case n >= assay.MaxInstallations:
			return assay.Errorf(assay.CodeConflict, "the organization has %d installations, which is the limit", n)
		}
		saved.CreatedAt, saved.CreatedBy = now, i.CreatedBy
		_, err := exec(ctx, tx, `INSERT INTO installations (id, org, provider, account, status, credential, created_at, created_by, last_error, external_id, writable, owner_id)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			ID(id), org, Text(i.Provider), Text(i.Account), Text(i.Status), document(i.Credential), Micros(now), Text(i.CreatedBy), message(i.LastError), Text(i.ExternalID), flag(i.Write), i.OwnerID)
		return q.conflict(err, "an installation with this id exists")
	})
	if err != nil {
		return err
	}
	i.ID, i.CreatedAt, i.CreatedBy = saved.ID, saved.CreatedAt, saved.CreatedBy
	return nil
}

// readInstallations reads installations i of organizations o, with conditions, an order and a limit.
func (q *Queries) readInstallations(ctx context.Context, operation, where string, args ...any) ([]*assay.Installation, error) {
	return list(ctx, q, connpool.Pages, operation, func(r Row) (*assay.Installation, error) {
		i := &assay.Installation{}
		var write int64
		err := r.Scan((*ID)(&i.ID), (*ID)(&i.OrganizationID), (*Text)(&i.Provider), (*Text)(&i.ExternalID), (*Text)(&i.Account), &i.OwnerID, (*Text)(&i.Status),
			&i.Credential, &write, (*Time)(&i.CreatedAt), (*Text)(&i.CreatedBy), (*Text)(&i.LastError))
		i.Write = write != 0
		return i, err
	}, `SELECT i.id, o.id, i.provider, i.external_id, i.account, i.owner_id, i.status, i.credential, i.writable, i.created_at, i.created_by, i.last_error
		FROM installations i JOIN organizations o ON o.org = i.org `+where, args...)
}

// Installations implements assay.CodebaseStore.
func (q *Queries) Installations(ctx context.Context, organizationID string) ([]*assay.Installation, error) {
	return q.readInstallations(ctx, "list installations", `WHERE o.id = $1 ORDER BY i.installation`, ID(organizationID))
}

// ConnectedInstallations implements assay.CodebaseStore.
func (q *Queries) ConnectedInstallations(ctx context.Context, provider, externalID string) ([]*assay.Installation, error) {
	return q.readInstallations(ctx, "find connected installations",
		`WHERE i.provider = $1 AND i.external_id = $2 AND i.external_id <> '' ORDER BY i.installation LIMIT CAST($3 AS bigint)`,
		Text(provider), Text(externalID), assay.MaxConnections)
}

// SetInstallationState implements assay.CodebaseStore.
func (q *Queries) SetInstallationState(ctx context.Context, organizationID, id, status, lastError string) error {
	return q.update(ctx, connpool.Pages, "set the state of an installation", errNoInstallation,
		`UPDATE installations SET status = $1, last_error = $2 WHERE id = $3 AND org = (SELECT org FROM organizations WHERE id = $4)`,
		Text(status), message(lastError), ID(id), ID(organizationID))
}

// ReplaceCredential implements assay.CodebaseStore.
func (q *Queries) ReplaceCredential(ctx context.Context, organizationID, id string, old, credential []byte) (replaced bool, err error) {
	err = q.engine.Update(ctx, connpool.Pages, "replace the credential of an installation", func(tx Tx) error {
		n, err := exec(ctx, tx, `UPDATE installations SET credential = $1 WHERE id = $2 AND credential = $3 AND org = (SELECT org FROM organizations WHERE id = $4)`,
			document(credential), ID(id), document(old), ID(organizationID))
		replaced = n > 0
		return err
	})
	return result(replaced, err)
}

// DeleteInstallation implements assay.CodebaseStore.
func (q *Queries) DeleteInstallation(ctx context.Context, organizationID, id string) error {
	const (
		operation = "delete an installation"
		ofRepo    = `repo = $1`
	)
	var installation int64
	var repos []int64
	err := q.updateOrganization(ctx, operation, organizationID, func(tx Tx, org int64, now time.Time) error {
		if err := need(ctx, tx, errNoInstallation, []any{&installation},
			`SELECT installation FROM installations WHERE id = $1 AND org = $2`, ID(id), org); err != nil {
			return err
		}
		b := new(Batch)
		repos = nil
		b.Query(collect(&repos, value[int64]), `SELECT repo FROM repositories WHERE installation = $1 ORDER BY repo`, installation)
		// The replicas that run them lose their leases.
		b.Exec(`UPDATE runs SET status = $1, ended_at = $2, holder = '' WHERE ended_at = 0 AND repo IN (SELECT repo FROM repositories WHERE installation = $3)`,
			runCancelled, Micros(now), installation)
		b.Exec(`UPDATE repositories SET active = 0 WHERE installation = $1`, installation)
		// It gives no more access, also if its deletion is interrupted.
		b.Exec(`UPDATE installations SET credential = NULL, writable = 0, status = $1, last_error = $2 WHERE installation = $3`,
			Text(assay.InstallationSuspended), Text(errDisconnected), installation)
		return tx.Send(ctx, b)
	})
	if err != nil {
		return err
	}
	for _, repo := range repos {
		if err := q.deleteRuns(ctx, connpool.Pages, operation, ofRepo, repo); err != nil {
			return err
		}
		if err := q.deleteRows(ctx, connpool.Pages, operation, "code_findings", `repo, id`, ofRepo, repo, documentRows); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(repos, q.sql.ServiceChunk) {
		err := q.engine.Chunk(ctx, connpool.Pages, operation, func(tx Tx) error {
			b := new(Batch)
			// Lock in the order of all transactions: runs, then their repositories.
			if q.sql.LockRows != "" {
				b.Exec(`SELECT 1 FROM runs WHERE `+q.sql.In(`repo`, `$1`)+` ORDER BY run`+q.sql.LockRows, chunk)
			}
			b.Exec(`DELETE FROM repositories WHERE `+q.sql.In(`repo`, `$1`), chunk)
			return tx.Send(ctx, b)
		})
		if err != nil {
			return err
		}
	}
	return q.updateOrganization(ctx, operation, organizationID, func(tx Tx, org int64, _ time.Time) error {
		b := new(Batch)
		// Repositories that were added meanwhile are new and have few rows.
		b.Exec(`DELETE FROM repositories WHERE installation = $1 AND org = $2`, installation, org)
		b.Exec(`DELETE FROM installations WHERE installation = $1 AND org = $2`, installation, org)
		return tx.Send(ctx, b)
	})
}

// deleteRuns deletes the runs that match a condition on a repository, with their events and patches.
func (q *Queries) deleteRuns(ctx context.Context, pool connpool.Pool, operation, condition string, repo int64) error {
	ofRuns := `run IN (SELECT run FROM runs WHERE ` + condition + `)`
	if err := q.deletePatches(ctx, pool, operation, ofRuns, repo); err != nil {
		return err
	}
	if err := q.deleteRows(ctx, pool, operation, "run_events", `run, seq`, ofRuns, repo, q.sql.RowChunk); err != nil {
		return err
	}
	return q.deleteRows(ctx, pool, operation, "runs", `run`, condition, repo, documentRows)
}

// deletePatches deletes the patches that match a condition on an argument. A patch may have as many bytes as all other
// rows of a transaction.
func (q *Queries) deletePatches(ctx context.Context, pool connpool.Pool, operation, condition string, arg int64) error {
	type patch struct{ run, size int64 }
	var found []patch
	err := q.engine.View(ctx, pool, operation, func(b *Batch) {
		found = nil
		b.Query(collect(&found, func(r Row) (p patch, err error) { return p, r.Scan(&p.run, &p.size) }),
			`SELECT run, length(patch) FROM run_patches WHERE `+condition+` ORDER BY run`, arg)
	})
	if err != nil {
		return err
	}
	for len(found) > 0 {
		var runs []int64
		for size := int64(0); len(found) > 0 && (len(runs) == 0 || size+found[0].size <= patchesBytes); found = found[1:] {
			runs, size = append(runs, found[0].run), size+found[0].size
		}
		err := q.engine.Chunk(ctx, pool, operation, func(tx Tx) error {
			_, err := exec(ctx, tx, `DELETE FROM run_patches WHERE `+q.sql.In(`run`, `$1`), runs)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteRows deletes the rows of a table that match a condition on an argument, in chunks.
func (q *Queries) deleteRows(ctx context.Context, pool connpool.Pool, operation, table, key, condition string, arg int64, chunk int) error {
	for {
		var n int64
		err := q.engine.Chunk(ctx, pool, operation, func(tx Tx) (err error) {
			n, err = exec(ctx, tx, q.sql.DeleteSome(table, key, condition), arg, chunk)
			return err
		})
		if err != nil || n < int64(chunk) {
			return err
		}
	}
}

// orMissing returns err, or missing() if it is nil.
func orMissing(err error, missing func() error) error {
	if err == nil {
		err = missing()
	}
	return err
}
