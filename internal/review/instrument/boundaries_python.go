// SPDX-License-Identifier: Apache-2.0

package instrument

// pythonBoundaries adds spans and metrics to handlers, consumers and calls of a service in Python that nothing instruments,
// and reports whether it added any.
func (s *service) pythonBoundaries() (bool, error) { return false, nil }
