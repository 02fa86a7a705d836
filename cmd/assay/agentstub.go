// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"assay/internal/agentstub"
	"assay/internal/safetext"
)

type agentStubCmd struct {
	Address              string   `default:"127.0.0.1:8090" placeholder:"HOST:PORT" help:"Where the stand-in listens (${default}). It has no TLS."`
	JWKSURL              string   `name:"jwks-url" default:"http://127.0.0.1:8080/.well-known/jwks.json" placeholder:"URL" help:"Where assay publishes the keys of its tokens (${default})."`
	JWKSCA               string   `name:"jwks-ca" placeholder:"FILE" help:"Certificates that the one of that address is checked against, PEM; default those of the system."`
	Issuer               string   `placeholder:"URL" help:"Issuer that a token must have: assay's --public-url. Default: scheme and host of --jwks-url."`
	Audience             string   `default:"assay-agent" placeholder:"TEXT" help:"Audience that a token must have (${default})."`
	RepositoryLimit      int      `default:"5" placeholder:"N" help:"Active repositories of an organization (${default})."`
	PartnerOrganizations []string `name:"partner-organizations" placeholder:"ID" help:"Ids of the organizations that may start partner migrations; * stands for all (none)."`
	LogFormat            string   `default:"text" enum:"text,json" help:"Format of the log: ${enum} (${default})."`
	LogLevel             string   `default:"info" enum:"debug,info,warn,error" help:"Least level of the log: ${enum} (${default}). At debug each request is logged."`
}

// stubShutdown is the time that requests have to end.
const stubShutdown = 5 * time.Second

func (c *agentStubCmd) problems() []error {
	var ck check
	ck.err("address", checkAddress(c.Address))
	u, err := url.Parse(c.JWKSURL)
	ck.that(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil,
		"--jwks-url: not a URL, such as http://127.0.0.1:8080/.well-known/jwks.json")
	_, err = readRoots(c.JWKSCA)
	ck.err("jwks-ca", err)
	ck.that(c.Audience != "", "--audience: is empty")
	ck.that(c.RepositoryLimit > 0, "--repository-limit: %d is not positive", c.RepositoryLimit)
	return ck.problems
}

// config returns the configuration of the handler.
func (c *agentStubCmd) config(logger *slog.Logger) (agentstub.Config, error) {
	roots, err := readRoots(c.JWKSCA)
	if err != nil {
		return agentstub.Config{}, err
	}
	issuer := c.Issuer
	if issuer == "" {
		u, err := url.Parse(c.JWKSURL)
		if err != nil {
			return agentstub.Config{}, err
		}
		issuer = u.Scheme + "://" + u.Host
	}
	return agentstub.Config{
		JWKSURL: c.JWKSURL, RootCAs: roots, Issuer: issuer, Audience: c.Audience,
		RepositoryLimit: c.RepositoryLimit, PartnerOrganizations: c.PartnerOrganizations, Logger: logger,
	}, nil
}

func (c *agentStubCmd) logger(e *environment) *slog.Logger {
	var level slog.Level
	// The flag takes the names of levels alone.
	_ = level.UnmarshalText([]byte(strings.ToUpper(c.LogLevel)))
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(safetext.JSONWriter{To: e.stderr}, options))
	}
	return slog.New(slog.NewTextHandler(e.stderr, options))
}

// Run answers in place of an agent backend until SIGINT or SIGTERM.
func (c *agentStubCmd) Run(e *environment) error {
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	logger := c.logger(e)
	cfg, err := c.config(logger)
	if err != nil {
		return usageError{err}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	srv := newStubServer(agentstub.New(cfg), logger)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	e.say("assay agent-stub: a STAND-IN for the agent backend, for development only; all it answers is invented, kept in memory and gone at its end")
	logger.Info("stand-in serves", "url", "http://"+l.Addr().String(), "jwks", cfg.JWKSURL, "issuer", cfg.Issuer, "audience", cfg.Audience)

	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	stop() // the next signal has its default effect
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stubShutdown)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		return errors.Join(fmt.Errorf("shut down: %w", err), srv.Close())
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// newStubServer returns a server with deadlines for the stand-in.
func newStubServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: arrivalTimeout,
		ReadTimeout:       arrivalTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}
