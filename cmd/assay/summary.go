// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/summary"
	"assay/internal/summary/provider"
)

// summaryConfig says which language model writes summaries, as flags.
type summaryConfig struct {
	SummaryProvider   string        `default:"" enum:",openai,anthropic" placeholder:"openai|anthropic" help:"Who writes summaries of insights: openai is any endpoint that speaks OpenAI's chat completions. Without it there are none."`
	SummaryURL        string        `name:"summary-url" placeholder:"URL" help:"Base URL of the provider's API; default the provider's own."`
	SummaryModel      string        `placeholder:"NAME" help:"The model."`
	SummaryAPIKey     auth.Secret   `name:"summary-api-key" placeholder:"KEY" help:"Key for the provider."`
	SummaryAPIKeyFile string        `name:"summary-api-key-file" placeholder:"FILE" help:"File that holds the key for the provider."`
	SummaryTimeout    time.Duration `default:"30s" help:"Time for one summary, retries included (${default})."`
	SummaryDailyCalls int           `default:"200" placeholder:"N" help:"Calls to the model an organization and UTC day (${default})."`
}

// maxSummaryTimeout leaves time to answer within a listener's own limit.
const maxSummaryTimeout = 45 * time.Second

func (c *summaryConfig) problems() []error {
	var ck check
	if c.SummaryProvider == "" {
		ck.that(c.SummaryURL == "" && c.SummaryModel == "", "--summary-url and --summary-model need --summary-provider")
		return ck.problems
	}
	if c.SummaryURL != "" {
		ck.err("summary-url", checkServiceURL(c.SummaryURL))
	}
	ck.that(c.SummaryModel != "", "--summary-model: the model is not given")
	if c.SummaryModel != "" {
		_, err := c.model(nil)
		ck.add(err)
	}
	ck.that(c.SummaryTimeout > 0 && c.SummaryTimeout <= maxSummaryTimeout, "--summary-timeout: %v is not in the range up to %v", c.SummaryTimeout, maxSummaryTimeout)
	ck.that(c.SummaryDailyCalls > 0, "--summary-daily-calls: %d is not positive", c.SummaryDailyCalls)
	return ck.problems
}

// provider returns the language model. It does not connect.
func (c *summaryConfig) model(wrap func(http.RoundTripper) http.RoundTripper) (summary.Provider, error) {
	key, err := readSecret("summary-api-key", c.SummaryAPIKey, c.SummaryAPIKeyFile)
	if err != nil {
		return nil, err
	}
	return provider.New(provider.Config{Kind: c.SummaryProvider, URL: c.SummaryURL, Model: c.SummaryModel, APIKey: string(key), Wrap: wrap})
}

// openSummaries prepares the summarizer, if a model is configured.
func (s *server) openSummaries() error {
	if s.cfg.SummaryProvider == "" {
		return nil
	}
	model, err := s.cfg.model(s.own.Transport)
	if err != nil {
		return err
	}
	s.summaries = summary.New(summary.Config{
		Store: s.store, Provider: model, DailyCalls: s.cfg.SummaryDailyCalls, Timeout: s.cfg.SummaryTimeout, Leases: s.replica, Now: s.replica.Now, Logger: s.logger,
		Observe: s.own.ObserveSummary, ObserveCall: s.own.ObserveSummaryCall,
	})
	return nil
}

// summarizer returns who writes summaries, nil when nobody does.
func (s *server) summarizer() assay.Summarizer {
	if s.summaries == nil {
		return nil
	}
	return s.summaries
}
