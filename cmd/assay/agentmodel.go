// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"assay"
	"assay/internal/auth"
	"assay/internal/codebase/propose"
	"assay/internal/llm"
)

// agentModelConfig holds the flags of the language model that changes code.
type agentModelConfig struct {
	AgentModelProvider    string      `default:"" enum:",openai,anthropic" placeholder:"openai|anthropic" help:"Provider of the language model that proposes changes for findings without a mechanical fix and for boundaries that general instrumentation cannot instrument. openai is any endpoint of OpenAI's chat completions API. Default: no model."`
	AgentModel            string      `placeholder:"NAME" help:"Name of the model. It has to support tools."`
	AgentModelURL         string      `name:"agent-model-url" placeholder:"URL" help:"Base URL of the provider's API. Default: the provider's own."`
	AgentModelAPIKey      auth.Secret `name:"agent-model-api-key" placeholder:"KEY" help:"API key of the provider."`
	AgentModelAPIKeyFile  string      `name:"agent-model-api-key-file" placeholder:"FILE" help:"File that contains the API key of the provider."`
	AgentModelPrice       modelPrice  `placeholder:"INPUT,OUTPUT" help:"Prices of a million input and output tokens, such as 3,15. Default: costs are unknown."`
	AgentModelBudget      modelBudget `default:"500000" placeholder:"TOKENS[,COST]" help:"Maximum tokens, and cost by --agent-model-price, of a run, such as 500000,2.50 (${default})."`
	AgentModelDailyBudget modelBudget `default:"5000000" placeholder:"TOKENS[,COST]" help:"Maximum tokens and cost for each organization and UTC day (${default})."`
}

func (c *agentModelConfig) problems() []error {
	var ck check
	if c.AgentModelProvider == "" {
		ck.that(c.AgentModel == "" && c.AgentModelURL == "", "--agent-model and --agent-model-url need --agent-model-provider")
		return ck.problems
	}
	ck.that(c.AgentModel != "", "--agent-model: the model is not given")
	if c.AgentModel != "" {
		_, err := c.model(nil)
		ck.err("agent-model-*", err)
	}
	ck.that(c.AgentModelPrice != modelPrice{} || c.AgentModelBudget.Cost == 0 && c.AgentModelDailyBudget.Cost == 0,
		"--agent-model-budget and --agent-model-daily-budget with a cost need --agent-model-price")
	return ck.problems
}

// model returns the client of the language model. It does not connect.
func (c *agentModelConfig) model(wrap func(http.RoundTripper) http.RoundTripper) (*llm.Client, error) {
	key, err := readSecret("agent-model-api-key", c.AgentModelAPIKey, c.AgentModelAPIKeyFile)
	if err != nil {
		return nil, err
	}
	return llm.New(llm.Config{Kind: c.AgentModelProvider, URL: c.AgentModelURL, Model: c.AgentModel, APIKey: string(key), Wrap: wrap})
}

// proposer returns the proposer of changes, or nil if no model is configured.
func (c *agentModelConfig) proposer(wrap func(http.RoundTripper) http.RoundTripper) (*propose.Proposer, error) {
	if c.AgentModelProvider == "" {
		return nil, nil
	}
	model, err := c.model(wrap)
	if err != nil {
		return nil, err
	}
	return &propose.Proposer{
		Model: model, Price: propose.Price(c.AgentModelPrice), Run: assay.ModelUsage(c.AgentModelBudget), Day: assay.ModelUsage(c.AgentModelDailyBudget),
	}, nil
}

// maxAmount limits prices and budgets.
const maxAmount = 1_000_000

// amount parses a number from 0 to maxAmount.
func amount(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n >= 0 && n <= maxAmount
}

// modelPrice is INPUT,OUTPUT.
type modelPrice propose.Price

// UnmarshalText parses prices.
func (p *modelPrice) UnmarshalText(text []byte) error {
	input, output, _ := strings.Cut(string(text), ",")
	var ok, also bool
	p.Input, ok = amount(input)
	p.Output, also = amount(output)
	if !ok || !also {
		return fmt.Errorf("%q is not the prices of input and output, such as 3,15", text)
	}
	return nil
}

// modelBudget is TOKENS or TOKENS,COST.
type modelBudget assay.ModelUsage

// UnmarshalText parses a budget.
func (b *modelBudget) UnmarshalText(text []byte) error {
	tokens, cost, priced := strings.Cut(string(text), ",")
	n, err := strconv.ParseInt(tokens, 10, 64)
	money, ok := amount(cost)
	if err != nil || n <= 0 || priced && (!ok || money == 0) {
		return fmt.Errorf("%q is not a number of tokens and a cost, such as 500000 or 500000,2.50", text)
	}
	b.Tokens, b.Cost = n, int64(math.Round(money*1e6))
	return nil
}
