// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"context"
	"math"
	"time"

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
	u.Cost = float64(p.amount(u.Input, u.Output).Cost) / 1e6
	u.Turns++
}

// amount returns what tokens count in a budget.
func (p Price) amount(input, output int) assay.ModelUsage {
	// The price of a million tokens is that of a token in millionths. Tokens of a cache count as any input: an upper bound
	// for reads.
	cost := math.Ceil(float64(input)*p.Input + float64(output)*p.Output)
	return assay.ModelUsage{Tokens: int64(input) + int64(output), Cost: int64(cost)}
}

// Limits of what is believed of a provider's usage.
const (
	maxTokens     = 1 << 30
	bytesPerToken = 3 // at least, in code
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

// estimate returns an upper estimate of the tokens of a call.
func estimate(r *llm.Request) llm.Usage {
	size := len(r.System)
	for _, m := range r.Messages {
		size += len(m.Text)
		for _, c := range m.Calls {
			size += len(c.Name) + len(c.Arguments)
		}
		for _, result := range m.Results {
			size += len(result.Text)
		}
	}
	for _, t := range r.Tools {
		size += len(t.Description) + len(t.Schema)
	}
	return llm.Usage{Input: size / bytesPerToken, Output: r.MaxTokens}
}

// reserve takes the estimated amount of a call from the budgets. It returns why they do not suffice, or "".
func (p *Proposer) reserve(ctx context.Context, t *Task, at time.Time, call llm.Usage) (string, error) {
	spent, next := p.Price.amount(t.Usage.Input, t.Usage.Output), p.Price.amount(call.Input, call.Output)
	if p.Run.Tokens > 0 && spent.Tokens+next.Tokens > p.Run.Tokens || p.Run.Cost > 0 && spent.Cost+next.Cost > p.Run.Cost {
		return "the budget of the run is used up", nil
	}
	ok, err := t.Spend(ctx, at, next, p.Day)
	if err != nil || ok {
		return "", err
	}
	return "the budget of the day is used up", nil
}

// settle corrects what reserve took to what a call has used.
func (p *Proposer) settle(ctx context.Context, t *Task, at time.Time, estimated, used llm.Usage) error {
	was, is := p.Price.amount(estimated.Input, estimated.Output), p.Price.amount(used.Input, used.Output)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_, err := t.Spend(ctx, at, assay.ModelUsage{Tokens: is.Tokens - was.Tokens, Cost: is.Cost - was.Cost}, assay.ModelUsage{})
	return err
}

const settleTimeout = 5 * time.Second
