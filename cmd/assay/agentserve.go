// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"assay/internal/codebase"
	"assay/internal/lease"
	"assay/internal/telemetry"
	"assay/internal/tlsreload"
)

// agentShutdown is the timeout for requests in flight at shutdown.
const agentShutdown = 5 * time.Second

// agentConnections is the maximum number of connections to the agent.
const agentConnections = 2048

type agentServeCmd struct {
	storeConfig
	replicaConfig
	secretKeyConfig
	agentRunConfig

	Address       string `default:"127.0.0.1:8090" placeholder:"HOST:PORT" help:"Listen address (${default})."`
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; reloaded when it changes."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"Private key of --tls-cert in PEM."`
	JWKSURL       string `name:"jwks-url" default:"http://127.0.0.1:8080/.well-known/jwks.json" placeholder:"URL" help:"URL of the JSON Web Key Set of the servers (${default})."`
	JWKSCA        string `name:"jwks-ca" placeholder:"FILE" help:"CA certificates in PEM for --jwks-url. Default: the system's."`
	Issuer        string `placeholder:"URL" help:"Required issuer of tokens: the servers' --public-url. Default: scheme and host of --jwks-url."`
	PublicURL     string `name:"public-url" placeholder:"URL" help:"External URL of the agent: scheme and host. Source hosts send webhooks and browsers there. Required for GitHub, GitLab and Gitea."`
	AgentAudience string `default:"assay-agent" placeholder:"TEXT" help:"Required audience of tokens (${default})."`
	LogFormat     string `default:"text" enum:"text,json" help:"Log format: ${enum} (${default})."`
	LogLevel      string `default:"info" enum:"debug,info,warn,error" help:"Minimum log level: ${enum} (${default}). Level debug logs each request."`
}

func (c *agentServeCmd) problems() []error {
	ck := check{problems: append(c.storeConfig.problems(), c.replicaConfig.problems()...)}
	ck.problems = append(append(ck.problems, c.secretKeyConfig.problems()...), c.agentRunConfig.problems()...)
	ck.err("address", checkAddress(c.Address))
	u, err := url.Parse(c.JWKSURL)
	ck.that(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil,
		"--jwks-url: not a URL, such as http://127.0.0.1:8080/.well-known/jwks.json")
	_, err = tlsreload.ReadRoots(c.JWKSCA)
	ck.err("jwks-ca", err)
	ck.that(c.AgentAudience != "", "--agent-audience: is empty")
	ck.err("public-url", checkPublicURL(c.PublicURL))
	ck.that(c.PublicURL != "" || !c.configured(), "--public-url: is required for GitHub, GitLab and Gitea")
	_, err = c.certificate(nil)
	ck.add(err)
	return ck.problems
}

// certificate returns the certificate of the listener, or nil for plain text.
func (c *agentServeCmd) certificate(logger *slog.Logger) (*tlsreload.Certificate, error) {
	return (&serverConfig{TLSCert: c.TLSCert, TLSKey: c.TLSKey}).certificate(logger)
}

// issuer returns the required issuer of tokens.
func (c *agentServeCmd) issuer() string {
	if c.Issuer != "" {
		return c.Issuer
	}
	u, err := url.Parse(c.JWKSURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Run serves the agent until SIGINT or SIGTERM.
func (c *agentServeCmd) Run(e *environment) (err error) {
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	surviveClosedLog()
	logger, err := telemetry.NewLogger(e.stderr, c.LogFormat, c.LogLevel)
	if err != nil {
		return usageError{err}
	}
	roots, err := tlsreload.ReadRoots(c.JWKSCA)
	if err != nil {
		return usageError{err}
	}
	secret, err := c.secretKey()
	if err != nil {
		return usageError{err}
	}
	name, err := c.replicaName()
	if err != nil {
		return usageError{err}
	}
	certificate, err := c.certificate(logger)
	if err != nil {
		return usageError{err}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	defer l.Close()
	s, err := openStore(ctx, &c.storeConfig, openExisting, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	credentials, err := c.credentialSecret(ctx, s, secret, logger)
	if err != nil {
		return err
	}
	clock := lease.New(lease.Config{Store: s, Now: wallClock, Logger: logger})
	if err := clock.Renew(ctx); err != nil {
		return fmt.Errorf("read the clock of the store: %w", err)
	}
	own, err := newAgent(&agentParts{
		flags: &c.agentRunConfig, store: s, dataDir: c.DataDir, secret: credentials, name: name + ".agent",
		handler: codebase.Config{
			JWKSURL: c.JWKSURL, Keys: codebase.KeyTransport(roots), Issuer: c.issuer(), Audience: c.AgentAudience,
			ConnectURL: c.issuer() + connectPath, PublicURL: c.PublicURL, Now: clock.Now, Logger: logger,
		},
	})
	if err != nil {
		return err
	}
	// Source hosts and browsers reach the listener too, if there is a --public-url.
	var tlsConfig *tls.Config
	if certificate != nil {
		tlsConfig = certificate.TLS()
	}
	srv, l := newHTTPServer(l, own, tlsConfig, agentConnections, logger)
	served, worked := make(chan error, 1), make(chan struct{})
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(worked)
		var clocked sync.WaitGroup
		clocked.Go(func() { clock.Run(background) })
		own.run(background)
		clocked.Wait()
	}()
	go func() {
		if certificate != nil {
			go certificate.Run(background)
		}
		served <- srv.Serve(l)
	}()
	logger.Info("agent serves", "address", l.Addr().String(), "jwks", c.JWKSURL, "issuer", c.issuer(), "audience", c.AgentAudience)
	select {
	case err = <-served:
		err = fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	stop() // the next signal has its default effect
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), agentShutdown)
	defer cancel()
	if failure := srv.Shutdown(limited); failure != nil {
		logger.Warn(cutting, "error", failure)
		srv.Close()
	}
	end()
	<-worked
	return err
}
