// SPDX-License-Identifier: Apache-2.0

package instrument

// javaScriptBoundaries adds spans and metrics to handlers, consumers and calls of a service in JavaScript that nothing instruments,
// and reports whether it added any.
func (s *service) javaScriptBoundaries() (bool, error) { return false, nil }
