// SPDX-License-Identifier: Apache-2.0

// Package fix applies the mechanical fixes of findings: edits of exact ranges, which leave all other bytes of a file as
// they are.
package fix
