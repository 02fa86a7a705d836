// SPDX-License-Identifier: Apache-2.0

package lists

// Filter returns the items that keep accepts, nil if there are none.
func Filter[T any](items []T, keep func(T) bool) (kept []T) {
	for _, item := range items {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// Map returns f of each item. The result is never nil.
func Map[T, U any](items []T, f func(T) U) []U {
	all := make([]U, len(items))
	for i, item := range items {
		all[i] = f(item)
	}
	return all
}
