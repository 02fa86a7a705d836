// SPDX-License-Identifier: Apache-2.0

package lists

// Map returns f of each item. The result is never nil.
func Map[T, U any](items []T, f func(T) U) []U {
	all := make([]U, len(items))
	for i, item := range items {
		all[i] = f(item)
	}
	return all
}
