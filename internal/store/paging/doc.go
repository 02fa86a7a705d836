// SPDX-License-Identifier: Apache-2.0

// Package paging finds the rows of a page of a list, so that the last page costs as
// much as the first.
package paging
