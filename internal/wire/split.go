// SPDX-License-Identifier: Apache-2.0

package wire

// Split cuts a request into requests of so many resource entries each, or of more if there
// would be too many parts. Together they are the request. They alias body. A request that
// is not cut is returned as it is. Only the outermost fields are read: the parts may still
// be malformed.
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
