// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/llm"
	"assay/internal/summary"
)

// summaryConfig holds the flags of the language model for summaries.
type summaryConfig struct {
	SummaryProvider   string        `default:"" enum:",openai,anthropic" placeholder:"openai|anthropic" help:"Provider of summaries of insights: openai is any endpoint of OpenAI's chat completions API. Without it summaries are off."`
	SummaryURL        string        `name:"summary-url" placeholder:"URL" help:"Base URL of the provider's API. Default: the provider's own."`
	SummaryModel      string        `placeholder:"NAME" help:"Name of the model."`
	SummaryAPIKey     auth.Secret   `name:"summary-api-key" placeholder:"KEY" help:"API key of the provider."`
	SummaryAPIKeyFile string        `name:"summary-api-key-file" placeholder:"FILE" help:"File that contains the API key of the provider."`
	SummaryTimeout    time.Duration `default:"30s" help:"Timeout for one summary, retries included (${default})." hidden:""`
	SummaryDailyCalls int           `default:"200" placeholder:"N" help:"Maximum calls to the model for each organization and UTC day (${default})."`
}

// maxSummaryTimeout leaves time to answer within the write timeout of a listener.
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

// model returns the client of the language model. It does not connect.
func (c *summaryConfig) model(wrap func(http.RoundTripper) http.RoundTripper) (summary.Provider, error) {
	key, err := readSecret("summary-api-key", c.SummaryAPIKey, c.SummaryAPIKeyFile)
	if err != nil {
		return nil, err
	}
	return llm.New(llm.Config{Kind: c.SummaryProvider, URL: c.SummaryURL, Model: c.SummaryModel, APIKey: string(key), Wrap: wrap})
}

// openSummaries creates the summarizer, if a model is configured.
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

// summarizer returns the summarizer, or nil if no model is configured.
func (s *server) summarizer() assay.Summarizer {
	if s.summaries == nil {
		return nil
	}
	return s.summaries
}
