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

// Price is the price of a million tokens. The currency is the operator's.
type Price struct{ Input, Output float64 }

// Usage is the use of a model in a run. Cost is 0 without prices.
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

// cacheWrite is the price of an input token that is written to a cache, compared to one that is not: Anthropic's for
// five minutes. https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
const cacheWrite = 1.25

// amount returns the amount of tokens in a budget. Tokens read from a cache count as any input: an upper bound.
func (p Price) amount(u llm.Usage) assay.ModelUsage {
	input := float64(u.Input) + (cacheWrite-1)*float64(min(u.CacheWrite, u.Input))
	cost := math.Ceil(input*p.Input + float64(u.Output)*p.Output) // the price of a million tokens equals that of one token in millionths
	return assay.ModelUsage{Tokens: int64(u.Input) + int64(u.Output), Cost: int64(cost)}
}

// Limits of a usage that is plausible.
const (
	maxTokens     = 1 << 30
	bytesPerToken = 3 // at least, in code; a byte of a rare character may be a token
)

// usageOf returns the usage of a call. A provider that reports none, or impossible numbers, is not believed: such a
// call counts as estimated.
func usageOf(reported, estimated llm.Usage) llm.Usage {
	if reported.Input <= 0 || reported.Output < 0 || reported.Input > maxTokens || reported.Output > maxTokens {
		return estimated
	}
	for _, n := range []*int{&reported.CacheRead, &reported.CacheWrite, &reported.Reasoning} {
		*n = min(max(*n, 0), maxTokens)
	}
	return reported
}

// estimate returns an upper estimate of the tokens of a call, whose input may all be written to a cache.
func estimate(r *llm.Request) llm.Usage {
	size := 0 // in parts of a token, of which it has bytesPerToken
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

// reserve takes the estimated amount of a call from the budgets. It returns why they do not suffice, or "".
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

// settle replaces the reserved usage by the usage of a call.
func (p *Proposer) settle(ctx context.Context, t *Task, at time.Time, estimated, used llm.Usage) error {
	was, is := p.Price.amount(estimated), p.Price.amount(used)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_, err := t.Spend(ctx, at, assay.ModelUsage{Tokens: is.Tokens - was.Tokens, Cost: is.Cost - was.Cost}, assay.ModelUsage{})
	return err
}

const settleTimeout = 5 * time.Second
