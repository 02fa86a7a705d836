// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"assay"
)

// SQLSTATE codes and classes (PostgreSQL documentation, appendix A).
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnlyTransaction  = "25006"
	uniqueViolation      = "23505"
	undefinedTable       = "42P01"
	queryCanceled        = "57014"
	lockNotAvailable     = "55P03"
	invalidText          = "22021" // invalid encoding or NUL
	tooLong              = "54000" // for an index
	idleInTransaction    = "25P03"
)

// passingClasses are the classes of transient errors: connections, resources (disk full,
// memory, too many connections), operator intervention (shutdown, starting up), I/O.
var passingClasses = []string{"08", "53", "57P", "58"}

// Limits of the retries of a call.
const (
	maxConflicts  = 8 // failures caused by concurrent transactions
	maxLost       = 1 // dead connections
	conflictPause = 20 * time.Millisecond
)

// errStartOver requests that the transaction restarts.
var errStartOver = errors.New("begin again")

// repeat runs do with a connection and retries failures that may pass. do reports whether
// it is certain that nothing was committed.
func (s *Store) repeat(ctx context.Context, what string, do func(*pgx.Conn) (undone bool, err error)) error {
	conflicts, lost := 0, 0
	for {
		undone, err := s.try(ctx, do)
		if err == nil {
			return nil
		}
		state := stateOf(err)
		isLost := errors.As(err, new(*lostError))
		switch {
		case ctx.Err() != nil:
			return s.fail(ctx, what, err)
		case (state == serializationFailure || state == deadlockDetected || errors.Is(err, errStartOver)) && conflicts < maxConflicts:
			conflicts++
			pause(ctx, conflicts)
		case isLost && undone && lost < maxLost:
			lost++
		case isLost && !undone:
			return s.fail(ctx, what, fmt.Errorf("the outcome of the commit is unknown: %w", err))
		default:
			return s.fail(ctx, what, err)
		}
		s.logger.DebugContext(ctx, "postgres: retrying transaction", "what", what, "error", err)
	}
}

// try runs do once.
func (s *Store) try(ctx context.Context, do func(*pgx.Conn) (bool, error)) (undone bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return true, err
	}
	defer conn.Release()
	undone, err = do(conn.Conn())
	if err != nil && (conn.Conn().IsClosed() || stateOf(err) == readOnlyTransaction) {
		s.giveUp(ctx, conn)
		err = &lostError{err}
	}
	return undone, err
}

// lostError reports that a connection is unusable, and that others probably are as well.
type lostError struct{ err error }

func (e *lostError) Error() string { return "the connection is lost: " + e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// generationKey is the key of a connection's generation in its custom data.
const generationKey = "generation"

// connected marks a new connection with its generation.
func (s *Store) connected(_ context.Context, conn *pgx.Conn) error {
	conn.PgConn().CustomData()[generationKey] = s.generation.Load()
	return nil
}

// giveUp closes a connection and makes the pool close the idle connections of its
// generation: a server that restarted, became a standby or is unreachable has ended all
// of them. If ctx has ended, only this connection may be affected.
func (s *Store) giveUp(ctx context.Context, conn *pgxpool.Conn) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Conn().Close(closing) // it may be closed already
	// Close the socket as well: driver and pool would wait for an unreachable server to
	// confirm.
	_ = conn.Conn().PgConn().Conn().Close()
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	generation, _ := conn.Conn().PgConn().CustomData()[generationKey].(uint64)
	if s.generation.CompareAndSwap(generation, generation+1) {
		s.pool.Reset()
	}
}

// pause waits a random time that grows with the number of conflicts.
func pause(ctx context.Context, conflicts int) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(conflictPause * time.Duration(conflicts))):
	}
}

// fail converts an error: it keeps errors of the domain and returns CodeUnavailable for
// errors that may pass. Server errors name tables and columns; fail removes their details
// about values.
func (s *Store) fail(ctx context.Context, what string, err error) error {
	switch state := stateOf(err); {
	case errors.As(err, new(*assay.Error)):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("postgres: %s: %w", what, context.Cause(ctx))
	case s.closed.Load():
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: the store is closed: %w", what, err)
	case errors.As(err, new(*lostError)) || errors.As(err, new(*pgconn.ConnectError)):
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: %w", what, err)
	case state == queryCanceled: // by statement_timeout, since ctx has not ended
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: %w", what, errors.Join(err, context.DeadlineExceeded))
	case state == invalidText || state == tooLong:
		return assay.Errorf(assay.CodeInvalid, "postgres: %s: a text that cannot be stored: %w", what, err)
	case passing(state):
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: %w", what, err)
	default:
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
}

// passing reports whether a retry may succeed after an error with a SQLSTATE.
func passing(state string) bool {
	switch state {
	case serializationFailure, deadlockDetected, lockNotAvailable, readOnlyTransaction, idleInTransaction:
		return true
	}
	return slices.ContainsFunc(passingClasses, func(class string) bool { return strings.HasPrefix(state, class) })
}
