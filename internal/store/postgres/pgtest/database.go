// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// URL returns the address of the database postgres, with the password of its
// superuser if there is one.
func (s *Server) URL() string { return s.url("postgres") }

// Address returns the host and port on which the server listens: a proxy's target.
// "" without Config.TCP.
func (s *Server) Address() string {
	if s.port == 0 {
		return ""
	}
	return net.JoinHostPort(loopback, strconv.Itoa(s.port))
}

func (s *Server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database}
	q := url.Values{"sslmode": {"disable"}}
	if s.port != 0 {
		u.User = url.UserPassword(superuser, s.config.Password)
		u.Host = s.Address()
	} else {
		q.Set("host", s.dir)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// NewDatabase creates an empty database, encoded in UTF-8 and sorted by bytes, and
// returns its URL.
func (s *Server) NewDatabase(ctx context.Context) (string, error) {
	return s.newDatabase(ctx, "template0")
}

// NewDatabaseFrom copies a database of NewDatabase, which must have no connections.
func (s *Server) NewDatabaseFrom(ctx context.Context, template string) (string, error) {
	name, err := databaseOf(template)
	if err != nil {
		return "", err
	}
	return s.newDatabase(ctx, name)
}

func (s *Server) newDatabase(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	statement := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, pgx.Identifier{template}.Sanitize())
	if err := s.exec(ctx, statement); err != nil {
		return "", fmt.Errorf("pgtest: make a database: %w", err)
	}
	return s.url(name), nil
}

// DropDatabase deletes a database of NewDatabase and closes its connections.
func (s *Server) DropDatabase(ctx context.Context, database string) error {
	name, err := databaseOf(database)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", pgx.Identifier{name}.Sanitize())); err != nil {
		return fmt.Errorf("pgtest: delete a database: %w", err)
	}
	return nil
}

func databaseOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("pgtest: read the URL of a database: %w", err)
	}
	return strings.TrimPrefix(u.Path, "/"), nil
}

// exec runs a statement on the database postgres, over a connection of its own: the
// server may have been restarted.
func (s *Server) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	_, err = c.Exec(ctx, statement)
	return err
}
