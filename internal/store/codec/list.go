// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strings"

	"assay"
	"assay/internal/delta"
)

// Fold maps a name, or a part of one, to lower case for a case-insensitive search.
// Invalid UTF-8 stays unchanged.
func Fold(name string) []byte {
	folded := make([]byte, 0, len(name))
	for len(name) > 0 {
		valid := name
		if i := strings.IndexFunc(name, func(r rune) bool { return r == '\uFFFD' }); i >= 0 {
			valid = name[:i]
		}
		folded = append(folded, strings.ToLower(valid)...)
		if name = name[len(valid):]; len(name) > 0 { // an invalid byte, or the replacement character itself
			folded = append(folded, name[0])
			name = name[1:]
		}
	}
	return folded
}

// listed are the signals in the order of lists.
var listed = [delta.SignalCount]struct {
	signal delta.Signal
	name   assay.Signal
}{{delta.Traces, assay.SignalTrace}, {delta.Metrics, assay.SignalMetric}, {delta.Logs, assay.SignalLog}}

// SignalBit returns the bit of a signal in a set of them, 0 for an unknown one.
func SignalBit(s assay.Signal) int64 {
	if n := SignalNumber(s); n > 0 {
		return 1 << (n - 1)
	}
	return 0
}

// Signals returns the set of signals that a service sent, one bit each.
func (t *Tally) Signals() int64 {
	var set int64
	for _, l := range listed {
		if t.Usage[l.signal] != (delta.Usage{}) {
			set |= SignalBit(l.name)
		}
	}
	return set
}

// SignalNames decodes a set of signals: trace, metric, log.
func SignalNames(set int64) []assay.Signal {
	var names []assay.Signal
	for _, l := range listed {
		if set&SignalBit(l.name) != 0 {
			names = append(names, l.name)
		}
	}
	return names
}
