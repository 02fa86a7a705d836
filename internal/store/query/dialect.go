// SPDX-License-Identifier: Apache-2.0

package query

// Dialect is the SQL that differs between databases.
type Dialect struct {
	// Ints, IDs and Texts return an array argument as a table with the columns key, which has the order
	// of the array and any start, and value. The value of an id that is not a UUID matches no row.
	Ints, IDs, Texts func(param, alias string) string
	// In returns the condition that an integer is in an array argument.
	In func(expr, param string) string
	// InSelect returns the condition that a value is in the result of a query, which runs
	// once.
	InSelect func(expr, query string) string
	// JSONList aggregates integers to a JSON array.
	JSONList func(expr string) string
	// Found returns a query for columns of the rows of from, followed by the score that a
	// query selects for each row. Rows without a score are left out. Conditions follow as
	// " AND ..."; they and ORDER BY may name the tables of from.
	Found func(columns, score, from string) string
	// Contains returns the condition that bytes contain an argument.
	Contains func(expr, param string) string
	// Index returns a hint that names the index of a table. It may be empty.
	Index func(name string) string
	// NamePrefix returns the prefix of a service's name that starts the index
	// services_by_name. nil: the index has whole names.
	NamePrefix func(expr string) string

	// Evidence joins the evidence table with insights i. EvidenceOf is its alias in the
	// join, EvidenceTable its name. The table is insights itself if the database has no
	// separate one.
	Evidence, EvidenceOf, EvidenceTable string
	// Unscored is the condition that the facts of a service changed since it was scored.
	// Rescore is the assignment of an update of services that makes it true.
	Unscored, Rescore string
	// SetStatus sets the status $2, the mute reason $3 and the update time $4 of the insight
	// $1, and the detection time $5 unless it is NULL.
	SetStatus string
	// LockService and LockInsight end a query and lock the rows of services s and insights i
	// that it finds.
	LockService, LockInsight string
	// InsightKey is the column of insights that summaries refer to.
	InsightKey string
	// PagesApart selects two statements for a page of insights: one for its ids, which the
	// server plans for each page, and one for the insights with these ids, which it plans
	// once.
	PagesApart bool
	// LockGone ends a query of services to delete and skips services that another
	// transaction has locked. OfServices are the tables whose rows are deleted with a
	// service explicitly, such as insights if cascades run no triggers. CountGone subtracts $2 services from the count of the organization
	// $1. It may be empty.
	LockGone, CountGone string
	OfServices          []string
	// DeleteSome returns a statement that deletes at most $2 rows of a table that match a
	// condition on $1.
	DeleteSome func(table, key, condition string) string
	// MergeMinutes adds at most $2 of the minutes before the time $1 of log_volume to their
	// hours and deletes them. The last statement changes no row if there are none.
	MergeMinutes []string
	// Maximum number of rows and of services that one transaction of the expiry deletes.
	RowChunk, ServiceChunk int
	// LockRows ends a query of one table and locks the rows that it finds. "": the database
	// serializes all writers.
	LockRows string
	// LockSessions, LockCodebase and LockSigningKeys serialize transactions that change the sessions of
	// the organization $1, its repositories (0: the claims of runs of all organizations), or
	// the signing keys. "": the database serializes all writers.
	LockSessions, LockCodebase, LockSigningKeys string
}
