// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"context"
	"math"
	"time"
	"unicode/utf8"

	"assay"
	"assay/internal/llm"
)

// Price is the price of a million tokens, in the operator's currency.
type Price struct{ Input, Output float64 }

// Usage is the usage of a model in a run. Cost is 0 if no prices are configured.
type Usage struct {
	Input      int     `json:"input"`
	Output     int     `json:"output"`
	CacheRead  int     `json:"cacheRead"`
	CacheWrite int     `json:"cacheWrite"`
	Reasoning  int     `json:"reasoning"`
	Total      int     `json:"totalTokens"`
	Cost       float64 `json:"costTotal"`
	Turns      int     `json:"turnCount"`
}

// add adds the usage of a call.
func (u *Usage) add(call llm.Usage, p Price) {
	u.Input += call.Input
	u.Output += call.Output
	u.CacheRead += call.CacheRead
	u.CacheWrite += call.CacheWrite
	u.Reasoning += call.Reasoning
	u.Total = u.Input + u.Output
	u.Cost = float64(p.amount(u.tokens()).Cost) / 1e6
	u.Turns++
}

// tokens returns the tokens of all calls.
func (u *Usage) tokens() llm.Usage {
	return llm.Usage{Input: u.Input, Output: u.Output, CacheWrite: u.CacheWrite}
}

// cacheWrite is the price of an input token that is written to a cache, relative to the price of an input token. It is
// Anthropic's price for five minutes: https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
const cacheWrite = 1.25

// amount returns the tokens and the cost that a usage is charged to a budget. Tokens read from a cache are charged as
// input, so the cost is an upper bound.
func (p Price) amount(u llm.Usage) assay.ModelUsage {
	input := float64(u.Input) + (cacheWrite-1)*float64(min(u.CacheWrite, u.Input))
	// The cost is in millionths, since a Price is for a million tokens.
	cost := math.Ceil(input*p.Input + float64(u.Output)*p.Output)
	return assay.ModelUsage{Tokens: int64(u.Input) + int64(u.Output), Cost: int64(cost)}
}

// Limits of a plausible usage.
const (
	maxTokens     = 1 << 30
	bytesPerToken = 3 // lower bound for code; each byte of a character outside of ASCII counts as a token
)

// usageOf returns the usage of a call: the reported one, or the estimate if the provider reports no usage or impossible
// numbers.
func usageOf(reported, estimated llm.Usage) llm.Usage {
	if reported.Input <= 0 || reported.Output < 0 || reported.Input > maxTokens || reported.Output > maxTokens {
		return estimated
	}
	for _, n := range []*int{&reported.CacheRead, &reported.CacheWrite, &reported.Reasoning} {
		*n = min(max(*n, 0), maxTokens)
	}
	return reported
}

// estimate returns an upper bound of the tokens of a call, with all of its input written to a cache.
func estimate(r *llm.Request) llm.Usage {
	size := 0 // in units of 1/bytesPerToken of a token
	add := func(text string) {
		for i := range len(text) {
			if text[i] < utf8.RuneSelf {
				size++
			} else {
				size += bytesPerToken
			}
		}
	}
	add(r.System)
	for _, m := range r.Messages {
		add(m.Text)
		for _, c := range m.Calls {
			add(c.Name)
			add(c.Arguments)
		}
		for _, result := range m.Results {
			add(result.Text)
		}
	}
	for _, t := range r.Tools {
		add(t.Description)
		add(string(t.Schema))
	}
	return llm.Usage{Input: size / bytesPerToken, CacheWrite: size / bytesPerToken, Output: r.MaxTokens}
}

// reserve charges the estimated usage of a call to the budgets. If a budget is exhausted, it returns the reason.
func (p *Proposer) reserve(ctx context.Context, t *Task, at time.Time, call llm.Usage) (string, error) {
	spent, next := p.Price.amount(t.Usage.tokens()), p.Price.amount(call)
	if p.Run.Tokens > 0 && spent.Tokens+next.Tokens > p.Run.Tokens || p.Run.Cost > 0 && spent.Cost+next.Cost > p.Run.Cost {
		return "the budget of the run is used up", nil
	}
	ok, err := t.Spend(ctx, at, next, p.Day)
	if err != nil || ok {
		return "", err
	}
	return "the budget of the day is used up", nil
}

// settle corrects the reserved usage of a call to its actual usage, even if ctx is canceled.
func (p *Proposer) settle(ctx context.Context, t *Task, at time.Time, estimated, used llm.Usage) error {
	reserved, actual := p.Price.amount(estimated), p.Price.amount(used)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_, err := t.Spend(ctx, at, assay.ModelUsage{Tokens: actual.Tokens - reserved.Tokens, Cost: actual.Cost - reserved.Cost}, assay.ModelUsage{})
	return err
}

const settleTimeout = 5 * time.Second
