// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"assay"
	"assay/internal/agent"
	"assay/internal/auth/sign"
)

// agentConfig says where requests for the agent backend go, as flags.
type agentConfig struct {
	secretKeyConfig

	AgentBackendURL  string        `name:"agent-backend-url" placeholder:"URL" help:"Where the agent backend is. Without it the operations below /v1/agent answer 503."`
	AgentAudience    string        `default:"assay-agent" placeholder:"TEXT" help:"Audience of the tokens for the agent backend (${default})."`
	AgentTimeout     time.Duration `default:"30s" help:"Time for the agent backend to begin its response (${default})."`
	AgentMaxInFlight int           `default:"1024" placeholder:"N" help:"Requests that may wait for the agent backend at once (${default})."`
	AgentCA          string        `name:"agent-ca" placeholder:"FILE" help:"Certificates that the agent backend's is checked against, PEM; default those of the system."`
	AgentCert        string        `placeholder:"FILE" help:"Client certificate for the agent backend, PEM."`
	AgentKey         string        `placeholder:"FILE" help:"Its private key, PEM."`
}

// maxAgentTimeout leaves time to answer within a listener's own limit.
const maxAgentTimeout = 45 * time.Second

func (c *agentConfig) problems() []error {
	ck := check{problems: c.secretKeyConfig.problems()}
	ck.that(c.AgentAudience != "", "--agent-audience: is empty")
	ck.that(c.AgentTimeout > 0 && c.AgentTimeout <= maxAgentTimeout, "--agent-timeout: %v is not in the range up to %v", c.AgentTimeout, maxAgentTimeout)
	ck.that(c.AgentMaxInFlight > 0, "--agent-max-in-flight: %d is not positive", c.AgentMaxInFlight)
	if c.AgentBackendURL == "" {
		ck.that(c.AgentCA == "" && c.AgentCert == "" && c.AgentKey == "", "--agent-ca, --agent-cert and --agent-key need --agent-backend-url")
		return ck.problems
	}
	if err := checkServiceURL(c.AgentBackendURL); err != nil {
		ck.err("agent-backend-url", err)
		return ck.problems
	}
	g, err := agent.New(c.gateway("", func(context.Context, *assay.Principal) (string, error) { return "", nil }))
	ck.err("agent-*", err)
	if err == nil {
		g.Close()
	}
	return ck.problems
}

// gateway returns the configuration of the gateway as far as flags say.
func (c *agentConfig) gateway(publicURL string, signed func(context.Context, *assay.Principal) (string, error)) agent.Config {
	return agent.Config{
		URL: c.AgentBackendURL, PublicURL: publicURL, Sign: signed, Timeout: c.AgentTimeout, MaxInFlight: c.AgentMaxInFlight,
		CAFile: c.AgentCA, CertFile: c.AgentCert, KeyFile: c.AgentKey,
	}
}

// openAgent prepares the tokens that are signed here, and the way to the agent
// backend if there is one.
func (s *server) openAgent(ctx context.Context) error {
	secret, err := s.cfg.secretKey()
	if err != nil {
		return fmt.Errorf("--secret-key-file: %w", err)
	}
	s.signer, err = sign.New(ctx, sign.Config{
		Store: s.store, Issuer: s.publicURL(), Audience: s.cfg.AgentAudience, Secret: secret, Now: s.replica.Now, Logger: s.logger,
	})
	if err != nil || s.cfg.AgentBackendURL == "" {
		return err
	}
	cfg := s.cfg.gateway(s.publicURL(), s.signer.Sign)
	cfg.Wrap = s.own.Transport
	cfg.Observe = s.own.ObserveAgent
	cfg.Now = wallClock
	cfg.Logger = s.logger
	s.gateway, err = agent.New(cfg)
	return err
}

// publicURL is where clients reach the server: scheme and host.
func (s *server) publicURL() string {
	if s.cfg.PublicURL != "" {
		return s.cfg.PublicURL
	}
	return s.rootURL()
}

// agentBackend returns who takes forwarded requests, nil when nobody does.
func (s *server) agentBackend() assay.AgentBackend {
	if s.gateway == nil {
		return nil
	}
	return s.gateway
}
