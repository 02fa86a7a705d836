// SPDX-License-Identifier: Apache-2.0

package wire

// Split splits a request into parts of the given number of resource entries each, or more if that would exceed the
// given number of parts. Concatenated, the parts are the request. They alias body. A request that needs no split is
// returned unchanged. Split reads only the outermost fields, so the parts may be malformed.
func Split(body []byte, entries, parts int) ([][]byte, error) {
	all, err := Request(body)
	if err != nil {
		return nil, err
	}
	entries = max(entries, (all.Len()+parts-1)/parts)
	if all.Len() <= entries {
		return [][]byte{body}, nil
	}
	cut := make([][]byte, 0, (all.Len()+entries-1)/entries)
	start, end, n := 0, 0, 0
	for m, ok := all.Next(); ok; m, ok = all.Next() {
		if n > 0 && n%entries == 0 {
			cut = append(cut, body[start:end:end])
			start = end
		}
		n++
		end = m.Offset + len(m.Bytes)
	}
	return append(cut, body[start:]), nil
}
