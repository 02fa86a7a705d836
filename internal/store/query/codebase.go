// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/lists"
	"assay/internal/safetext"
	"assay/internal/store/connpool"
)

var _ assay.CodebaseStore = (*Queries)(nil)

func errNoInstallation() error { return assay.Errorf(assay.CodeNotFound, "no such installation") }

func errNoRepository() error { return assay.Errorf(assay.CodeNotFound, "no such repository") }

func errNoRun() error { return assay.Errorf(assay.CodeNotFound, "no such run") }

func errNoFinding() error { return assay.Errorf(assay.CodeNotFound, "no such finding") }

// checkSizes returns CodeInvalid if one of the texts is larger than max.
func checkSizes(what string, max int, texts ...string) error {
	for _, t := range texts {
		if len(t) > max {
			return assay.Errorf(assay.CodeInvalid, "a text of the %s has %d bytes, the limit is %d", what, len(t), max)
		}
	}
	return nil
}

// checkJSON returns CodeInvalid unless a document is empty or JSON of at most max bytes.
func checkJSON(what string, max int, document []byte) error {
	switch {
	case len(document) > max:
		return assay.Errorf(assay.CodeInvalid, "the %s has %d bytes, the limit is %d", what, len(document), max)
	case len(document) > 0 && !json.Valid(document):
		return assay.Errorf(assay.CodeInvalid, "the %s is not JSON", what)
	default:
		return nil
	}
}

// checkID returns the id, or a new one if it is empty.
func checkID(id string) (string, error) {
	if id == "" {
		u, err := uuid.NewRandom()
		if err != nil {
			return "", assay.Errorf(assay.CodeInternal, "make an id: %w", err)
		}
		return u.String(), nil
	}
	u, ok := ID(id).UUID()
	if !ok {
		return "", assay.Errorf(assay.CodeInvalid, "the id is not a UUID")
	}
	return u.String(), nil
}

// message truncates a message.
func message(s string) Text { return Text(safetext.Start(s, assay.MaxMessageBytes)) }

// document returns a JSON document as an argument: NULL if it is empty.
func document(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// flag returns a boolean in its stored form.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// in adds the condition that an expression is one of the values. No values: no condition.
func (c *conditions) in(expr string, values []any) {
	if len(values) == 0 {
		return
	}
	list := lists.Map(values, c.param)
	c.and(expr + ` IN (` + strings.Join(list, `, `) + `)`)
}

// maxFilter is the maximum number of values of one field of a filter.
const maxFilter = 20

// filterValues converts the values of a field of a filter to arguments.
func filterValues(values []string, convert func(string) any) ([]any, error) {
	if len(values) > maxFilter {
		return nil, assay.Errorf(assay.CodeInvalid, "a filter has at most %d values", maxFilter)
	}
	return lists.Map(values, convert), nil
}

func textValue(s string) any { return Text(s) }

// codebasePage returns the limits of a page.
func codebasePage(limit, offset int) assay.Page {
	if limit <= 0 {
		limit = assay.MaxCodebasePage
	}
	return assay.Page{Limit: min(limit, assay.MaxCodebasePage), Offset: max(offset, 0)}
}

// updateOrganization is Update for a change of an organization's installations, repositories,
// onboarding, webhooks or API keys. It serializes these changes. org is the row of the
// organization.
func (q *Queries) updateOrganization(ctx context.Context, operation, id string, do func(tx Tx, org int64, now time.Time) error) error {
	return q.engine.Update(ctx, connpool.Pages, operation, func(tx Tx) error {
		org, err := OrgOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := q.lockCodebase(ctx, tx, org); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return do(tx, org, now)
	})
}

// lockCodebase takes the lock of an organization, or with 0 the one of the claims of runs.
func (q *Queries) lockCodebase(ctx context.Context, tx Tx, org int64) error {
	if q.sql.LockCodebase == "" {
		return nil
	}
	_, err := exec(ctx, tx, q.sql.LockCodebase, org)
	return err
}
