// SPDX-License-Identifier: Apache-2.0

package inspect

import "time"

// Month is the period of Stats.PerServiceMonth.
const Month = 30 * 24 * time.Hour

// Stats describes the contents of a store.
type Stats struct {
	Schema Schema
	Oldest time.Time // start of the oldest bucket; zero if there is none
	Newest time.Time // start of the newest one
	Bytes  int64     // total size on disk
	Free   int64     // unused part of Bytes, if known
	Log    int64     // part of Bytes in the store's write-ahead log, if it has its own
	Tables []Table   // by name
}

// Table describes a table, including its indexes and partitions.
type Table struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"` // an estimate for a large table
	Bytes int64  `json:"bytes"`
}

// history are the tables whose rows accumulate over time and expire with the window. Rows
// of other tables stay as long as their subject.
var history = map[string]bool{"hours": true, "distinct_sets": true, "scores": true, "organization_scores": true}

// Table returns the table with a name, or zeros if there is none.
func (s *Stats) Table(name string) Table {
	for _, t := range s.Tables {
		if t.Name == name {
			return t
		}
	}
	return Table{Name: name}
}

// Organizations returns the number of organizations.
func (s *Stats) Organizations() int64 { return s.Table("organizations").Rows }

// Services returns the number of services of all organizations.
func (s *Stats) Services() int64 { return s.Table("services").Rows }

// Span returns the time that the buckets cover, up to the end of an hour. It is 0 without
// buckets.
func (s *Stats) Span() time.Duration {
	if s.Oldest.IsZero() {
		return 0
	}
	return s.Newest.Sub(s.Oldest) + time.Hour
}

// PerServiceMonth estimates the bytes of one service after a month. It extrapolates the
// history to a month and adds the current size of the rest. It is 0 without services.
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
