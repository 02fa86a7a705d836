// SPDX-License-Identifier: Apache-2.0

package wiretest

import "context"

// EndingContext ends, with context.Canceled, after its error was asked for Checks times.
// It counts how often work looks at its context, without a clock. It is not safe for
// concurrent use.
type EndingContext struct {
	context.Context
	Checks int
}

// Err returns nil, and context.Canceled once Checks calls have been made.
func (c *EndingContext) Err() error {
	if c.Checks--; c.Checks < 0 {
		return context.Canceled
	}
	return nil
}
