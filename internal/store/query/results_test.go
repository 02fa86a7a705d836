// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"assay/internal/delta"
	"assay/internal/store/connpool"
)

const anyID = "3f0c6b1e-6a6d-4a39-9d1f-0f6a2b1c3d4e"

var errBroken = errors.New("the connection broke")

// brokenEngine delivers a number of rows to each statement and fails after a number of
// statements, or at the end of the transaction.
type brokenEngine struct {
	Engine
	Tx
	bytes            []byte // the value of columns with bytes
	rows, statements int
}

func (e *brokenEngine) Send(_ context.Context, b *Batch) error {
	for _, st := range b.Statements {
		if e.statements--; e.statements < 0 {
			return errBroken
		}
		if st.Changed != nil {
			*st.Changed = 1
		}
		for range e.rows {
			if st.Each == nil {
				break
			}
			if err := st.Each(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *brokenEngine) View(ctx context.Context, _ connpool.Pool, _ string, steps ...func(*Batch)) error {
	for _, step := range steps {
		var b Batch
		step(&b)
		if err := e.Send(ctx, &b); err != nil {
			return err
		}
	}
	return errBroken
}

func (e *brokenEngine) Update(_ context.Context, _ connpool.Pool, _ string, do func(Tx) error) error {
	return errors.Join(do(e), errBroken)
}

func (e *brokenEngine) Chunk(ctx context.Context, pool connpool.Pool, operation string, do func(Tx) error) error {
	return e.Update(ctx, pool, operation, do)
}

func (*brokenEngine) Now(context.Context) (time.Time, error) { return time.Unix(1, 0), nil }

func (*brokenEngine) CheckFence(context.Context, delta.Fence) error { return nil }

func (*brokenEngine) Unavailable(context.Context, error) bool { return true }

func (*brokenEngine) Fail(_ context.Context, _ string, err error) error { return err }

func (*brokenEngine) Taken(error) bool { return false }

func (*brokenEngine) Storable(string) bool { return true }

// Scan implements Row: all columns are set.
func (e *brokenEngine) Scan(dest ...any) error {
	for _, d := range dest {
		if s, ok := d.(sql.Scanner); ok {
			for _, v := range []any{int64(1), "text", make([]byte, 16)} {
				if s.Scan(v) == nil {
					break
				}
			}
			continue
		}
		fill(reflect.ValueOf(d).Elem(), e.bytes)
	}
	return nil
}

// fill sets a variable to a value that is not zero. Structs stay empty.
func fill(v reflect.Value, bytes []byte) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(anyID)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), bytes)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(bytes)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), bytes)
	default:
	}
}

// TestNoResultWithError calls each method whose results are more than an error.
func TestNoResultWithError(t *testing.T) {
	two, three := func(string, string) string { return "" }, func(string, string, string) string { return "" }
	d := &Dialect{
		Ints: two, IDs: two, Texts: two, In: two, InSelect: two, Contains: two, Found: three, DeleteSome: three,
		JSONList: func(string) string { return "" }, Index: func(string) string { return "" },
	}
	methods := reflect.TypeFor[*Queries]()
	failed := reflect.TypeFor[error]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		last := m.Type.NumOut() - 1
		if last < 1 || m.Type.Out(last) != failed {
			continue
		}
		for _, bytes := range []string{"", "[]", "{}"} {
			for rows := range 3 {
				for statements := range 8 {
					e := &brokenEngine{bytes: []byte(bytes), rows: rows, statements: statements}
					args := []reflect.Value{reflect.ValueOf(New(e, d)), reflect.ValueOf(t.Context())}
					for j := 2; j < m.Type.NumIn(); j++ {
						arg := reflect.New(m.Type.In(j)).Elem()
						fill(arg, e.bytes)
						args = append(args, arg)
					}
					out := m.Func.Call(args)
					if out[last].IsNil() {
						continue // has not asked the store
					}
					for k := range last {
						assert.True(t, out[k].IsZero(), fmt.Sprintf("%s: result %d with %d rows of %q and %d statements", m.Name, k, rows, bytes, statements))
					}
				}
			}
		}
	}
}
