// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"math"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// SpendModel implements assay.CodebaseStore. An unknown organization is CodeNotFound.
func (q *Queries) SpendModel(ctx context.Context, organizationID string, at time.Time, usage, limit assay.ModelUsage) (bool, error) {
	day := at.Unix() / (24 * 60 * 60)
	tokens, cost := cmp.Or(limit.Tokens, math.MaxInt64), cmp.Or(limit.Cost, math.MaxInt64)
	var n int64
	err := q.engine.Update(ctx, connpool.Pages, "count the use of a language model", func(tx Tx) error {
		org, err := OrgOf(ctx, tx, organizationID)
		if err != nil || usage.Tokens > tokens || usage.Cost > cost {
			return err
		}
		if _, err := exec(ctx, tx, `DELETE FROM model_usage WHERE org = $1 AND day <= $2`, org, day-callDaysKept); err != nil {
			return err
		}
		n, err = exec(ctx, tx, `INSERT INTO model_usage AS u (org, day, tokens, cost) VALUES ($1, $2, $3, $4)
			ON CONFLICT (org, day) DO UPDATE SET tokens = u.tokens + excluded.tokens, cost = u.cost + excluded.cost WHERE u.tokens <= $5 AND u.cost <= $6`,
			org, day, usage.Tokens, usage.Cost, tokens-max(usage.Tokens, 0), cost-max(usage.Cost, 0))
		return err
	})
	return result(n == 1, err)
}
