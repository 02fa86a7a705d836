// SPDX-License-Identifier: Apache-2.0

package inspect

import "time"

// Month is the time that Stats.PerServiceMonth is for.
const Month = 30 * 24 * time.Hour

// Stats is what is in a store.
type Stats struct {
	Schema Schema
	Oldest time.Time // start of the oldest bucket; zero: there is none
	Newest time.Time // start of the newest one
	Bytes  int64     // on disk, all in all
	Free   int64     // of these not in use, where that is known
	Log    int64     // of these the write-ahead log, where it is the store's own
	Tables []Table   // by name
}

// Table is what is in a table, its indexes and partitions included.
type Table struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"` // of a large table perhaps about so many
	Bytes int64  `json:"bytes"`
}

// history are the tables whose rows come with time and go with the window. Rows of
// others stay as long as what they are about.
var history = map[string]bool{"hours": true, "distinct_sets": true, "scores": true, "organization_scores": true}

// Table returns what is in a table, zeros when there is none of that name.
func (s *Stats) Table(name string) Table {
	for _, t := range s.Tables {
		if t.Name == name {
			return t
		}
	}
	return Table{Name: name}
}

// Organizations returns how many there are.
func (s *Stats) Organizations() int64 { return s.Table("organizations").Rows }

// Services returns how many there are of all organizations.
func (s *Stats) Services() int64 { return s.Table("services").Rows }

// Span returns the time that the buckets cover, up to the end of an hour; 0 without
// buckets.
func (s *Stats) Span() time.Duration {
	if s.Oldest.IsZero() {
		return 0
	}
	return s.Newest.Sub(s.Oldest) + time.Hour
}

// PerServiceMonth estimates the bytes that one service takes once a month of it is
// stored: what history there is, as if it went on like that for a month, and the rest
// as it is. 0 without services.
func (s *Stats) PerServiceMonth() int64 {
	services := s.Services()
	if services == 0 {
		return 0
	}
	var bytes float64
	for _, t := range s.Tables {
		b := float64(t.Bytes)
		if span := s.Span(); history[t.Name] && span > 0 {
			b *= Month.Hours() / span.Hours()
		}
		bytes += b
	}
	return int64(bytes / float64(services))
}
