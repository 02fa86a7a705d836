// SPDX-License-Identifier: Apache-2.0

package wiretest

import "context"

// EndingContext ends with context.Canceled after Checks calls of Err. Tests use it to count how often code checks its
// context, without a clock. It is not safe for concurrent use.
type EndingContext struct {
	context.Context
	Checks int
}

// Err returns nil for the first Checks calls and context.Canceled afterwards.
func (c *EndingContext) Err() error {
	if c.Checks--; c.Checks < 0 {
		return context.Canceled
	}
	return nil
}
