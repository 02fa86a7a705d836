// SPDX-License-Identifier: Apache-2.0

// Package inspect describes a store of any kind to an operator: the version of its schema
// compared with the program's, and its contents.
package inspect
