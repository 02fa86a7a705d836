// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"assay/internal/lists"
)

// ID is an id of the domain, a UUID. SQLite stores its 16 bytes, PostgreSQL a uuid. An
// argument that is not a UUID becomes NULL, which matches no row. NULL is read as "".
type ID string

// UUID returns the bytes of an id. It reports whether the id is a UUID.
func (id ID) UUID() (uuid.UUID, bool) {
	if len(id) != 36 {
		return uuid.UUID{}, false
	}
	u, err := uuid.Parse(string(id))
	return u, err == nil
}

// ScanUUID implements pgtype.UUIDScanner.
func (id *ID) ScanUUID(u pgtype.UUID) error {
	*id = ""
	if u.Valid {
		*id = ID(uuid.UUID(u.Bytes).String())
	}
	return nil
}

// Scan implements sql.Scanner.
func (id *ID) Scan(src any) error {
	*id = ""
	if src == nil {
		return nil
	}
	b, _ := src.([]byte)
	u, err := uuid.FromBytes(b)
	if err != nil {
		return fmt.Errorf("id is not a UUID: %w", err)
	}
	*id = ID(u.String())
	return nil
}

// IDs returns ids as an array argument.
func IDs(ids []string) []ID {
	return lists.Map(ids, func(id string) ID { return ID(id) })
}

// Text is a text from telemetry, which may hold any byte. SQLite stores a text,
// PostgreSQL bytes.
type Text string

// ScanBytes implements pgtype.BytesScanner.
func (t *Text) ScanBytes(b []byte) error {
	*t = Text(b)
	return nil
}

// Scan implements sql.Scanner.
func (t *Text) Scan(src any) error {
	switch v := src.(type) {
	case string:
		*t = Text(v)
	case []byte:
		*t = Text(v)
	default:
		return fmt.Errorf("text is stored as %T", src)
	}
	return nil
}

// Time is the destination of a stored time. NULL is read as the zero time.
type Time time.Time

// ScanInt64 implements pgtype.Int64Scanner.
func (t *Time) ScanInt64(n pgtype.Int8) error {
	*t = Time(TimeOf(n.Int64))
	return nil
}

// Scan implements sql.Scanner.
func (t *Time) Scan(src any) error {
	n, ok := src.(int64)
	if !ok && src != nil {
		return fmt.Errorf("time is stored as %T", src)
	}
	*t = Time(TimeOf(n))
	return nil
}

// Micros returns a time in its stored form: microseconds since 1970, 0 for none.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// TimeOf is the inverse of Micros.
func TimeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Stored returns t as a read returns it: with microseconds, in UTC.
func Stored(t time.Time) time.Time { return TimeOf(Micros(t)) }

// micros returns times as an array argument.
func micros(times []time.Time) []int64 {
	return lists.Map(times, Micros)
}
