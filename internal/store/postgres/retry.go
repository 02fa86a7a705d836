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

// SQLSTATE codes and classes that something is made of here (PostgreSQL
// documentation, appendix A).
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnlyTransaction  = "25006"
	uniqueViolation      = "23505"
	undefinedTable       = "42P01"
	queryCanceled        = "57014"
	lockNotAvailable     = "55P03"
	invalidText          = "22021" // not of the encoding; with a NUL
	tooLong              = "54000" // for an index
	idleInTransaction    = "25P03"
)

// passingClasses are those of errors that may be gone when tried again later:
// connections, resources (disk full, memory, too many connections), an operator's
// doing (shutdown, starting up), I/O.
var passingClasses = []string{"08", "53", "57P", "58"}

// How often a call is repeated.
const (
	maxConflicts  = 8 // failures that the presence of others explains
	maxLost       = 1 // connections that turn out to be dead
	conflictPause = 20 * time.Millisecond
)

// errStartOver has a transaction begin again.
var errStartOver = errors.New("begin again")

// repeat gives do a connection and runs it again as long as its failure is one that
// another try may not meet. do tells whether it is sure that nothing was committed.
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
			return s.fail(ctx, what, fmt.Errorf("whether it was stored is not known: %w", err))
		default:
			return s.fail(ctx, what, err)
		}
		s.logger.DebugContext(ctx, "postgres: transaction is repeated", "what", what, "error", err)
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

// lostError says that a connection is of no use any more, and with it likely all
// others.
type lostError struct{ err error }

func (e *lostError) Error() string { return "the connection is lost: " + e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// generationKey is where a connection's generation is kept.
const generationKey = "generation"

// connected marks a new connection with its generation.
func (s *Store) connected(_ context.Context, conn *pgx.Conn) error {
	conn.PgConn().CustomData()[generationKey] = s.generation.Load()
	return nil
}

// giveUp closes a connection and has the idle ones of its generation closed: a
// server that restarted, became a standby or cannot be reached any more has ended them
// all. A caller who gave up may have ended the one alone.
func (s *Store) giveUp(ctx context.Context, conn *pgxpool.Conn) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Conn().Close(closing) // it may be closed already
	// Driver and pool would wait for a server that cannot be reached to say good-bye.
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

// fail turns an error into one of the domain: errors of the domain stay, what may
// pass is CodeUnavailable. Errors of the server name tables and columns; what they
// say about values is left out.
func (s *Store) fail(ctx context.Context, what string, err error) error {
	var domain *assay.Error
	var lost *lostError
	var connect *pgconn.ConnectError
	var server *pgconn.PgError
	switch {
	case errors.As(err, &domain):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("postgres: %s: %w", what, context.Cause(ctx))
	case s.closed.Load():
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: the store is closed: %w", what, err)
	case errors.As(err, &lost) || errors.As(err, &connect):
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: %w", what, err)
	case !errors.As(err, &server):
		return fmt.Errorf("postgres: %s: %w", what, err)
	case server.Code == queryCanceled: // by statement_timeout, since ctx has not ended
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: %w", what, errors.Join(err, context.DeadlineExceeded))
	case server.Code == invalidText || server.Code == tooLong:
		return assay.Errorf(assay.CodeInvalid, "postgres: %s: a text that cannot be stored: %w", what, err)
	case passing(server.Code):
		return assay.Errorf(assay.CodeUnavailable, "postgres: %s: %w", what, err)
	default:
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
}

// passing tells whether an error with a SQLSTATE may be gone when tried again later.
func passing(state string) bool {
	switch state {
	case serializationFailure, deadlockDetected, lockNotAvailable, readOnlyTransaction, idleInTransaction:
		return true
	}
	return slices.ContainsFunc(passingClasses, func(class string) bool { return strings.HasPrefix(state, class) })
}
