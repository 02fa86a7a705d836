// SPDX-License-Identifier: Apache-2.0

package sqlite

// limitOffset ends a statement that finds a page. SQLite looks at a bare parameter of
// LIMIT when it plans, and so plans a second time once the parameter has its value.
const limitOffset = ` LIMIT ? + 0 OFFSET ? + 0`
