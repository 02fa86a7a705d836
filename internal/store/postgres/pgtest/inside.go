// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Hide renames tables of the store in a database, which may be in use. Until the returned
// function restores them, statements that use them fail, also when retried.
func Hide(ctx context.Context, database string, tables ...string) (restore func(context.Context) error, err error) {
	const away = "away_"
	rename := func(ctx context.Context, from, to string) error {
		return inside(ctx, database, func(ctx context.Context, c *pgx.Conn) error {
			for _, t := range tables {
				statement := fmt.Sprintf("ALTER TABLE %s RENAME TO %s", pgx.Identifier{from + t}.Sanitize(), pgx.Identifier{to + t}.Sanitize())
				if _, err := c.Exec(ctx, statement); err != nil {
					return fmt.Errorf("pgtest: rename %s: %w", t, err)
				}
			}
			return nil
		})
	}
	if err := rename(ctx, "", away); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return rename(ctx, away, "") }, nil
}

// Values returns the bytes of all values of all rows, by table, as in the database's
// files but without the headers of rows.
func Values(ctx context.Context, database string) (map[string][]byte, error) {
	values := make(map[string][]byte)
	err := inside(ctx, database, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
		if err != nil {
			return err
		}
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, t := range tables {
			rows, err := c.Query(ctx, "SELECT * FROM "+pgx.Identifier{t}.Sanitize())
			if err != nil {
				return err
			}
			var all []byte
			for rows.Next() {
				for _, v := range rows.RawValues() {
					all = append(append(all, v...), '\n')
				}
			}
			if err := rows.Err(); err != nil {
				return fmt.Errorf("pgtest: read %s: %w", t, err)
			}
			values[t] = all
		}
		return nil
	})
	return values, err
}

// ShiftClock moves the clock of a database: what clock_timestamp returns in sessions that begin after the first call. Further calls take effect at once.
func ShiftClock(ctx context.Context, database string, by time.Duration) error {
	name, err := databaseOf(database)
	if err != nil {
		return err
	}
	return inside(ctx, database, func(ctx context.Context, c *pgx.Conn) error {
		for _, statement := range []string{
			fmt.Sprintf(`CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
				$$ SELECT pg_catalog.clock_timestamp() + interval '%d milliseconds' $$`, by.Milliseconds()),
			fmt.Sprintf(`ALTER DATABASE %s SET search_path = public, pg_catalog`, pgx.Identifier{name}.Sanitize()),
		} {
			if _, err := c.Exec(ctx, statement); err != nil {
				return fmt.Errorf("pgtest: shift the clock: %w", err)
			}
		}
		return nil
	})
}

// inside calls do with a connection of its own.
func inside(ctx context.Context, database string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return do(ctx, c)
}
