// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"database/sql/driver"
	"fmt"

	"modernc.org/sqlite"

	"assay/internal/store/codec"
)

// functions are SQL functions that migrations call to derive columns from encoded values.
var functions = map[string]func(driver.Value) (driver.Value, error){
	// assay_fold(name) computes services.folded.
	"assay_fold": func(name driver.Value) (driver.Value, error) {
		text, ok := name.(string)
		if !ok {
			return nil, fmt.Errorf("assay_fold of a %T", name)
		}
		return codec.Fold(text), nil
	},
	// assay_signals(tally) computes services.signals.
	"assay_signals": func(tally driver.Value) (driver.Value, error) {
		blob, ok := tally.([]byte)
		if !ok {
			return nil, fmt.Errorf("assay_signals of a %T", tally)
		}
		var t codec.Tally
		if err := t.UnmarshalBinary(blob); err != nil {
			return nil, err
		}
		return t.Signals(), nil
	},
}

func init() {
	for name, f := range functions {
		// Panics on a duplicate name, which is a programming error.
		sqlite.MustRegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			return f(args[0])
		})
	}
}
