// SPDX-License-Identifier: Apache-2.0

// Package checktest has the examples of checks: small repositories, and the places in them that a check reports. They
// are the tests of a check and its documentation (docs/checks.md), which shows the first one with findings and the first
// one without. The file of a check is examples/ID.yaml.
package checktest
