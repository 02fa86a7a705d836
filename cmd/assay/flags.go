// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a number of bytes, written as such or with KiB, MiB or GiB.
type byteSize int64

var byteUnits = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// UnmarshalText parses a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(string(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.factor {
			break
		}
		*b = byteSize(n * u.factor)
		return nil
	}
	return fmt.Errorf("%q is not a number of bytes, such as 65536, 512KiB, 64MiB or 1GiB", text)
}

// String returns the size in the largest unit that divides it.
func (b byteSize) String() string {
	for i := len(byteUnits) - 2; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// check collects errors in the values of flags.
type check struct{ problems []error }

// that adds an error unless ok.
func (c *check) that(ok bool, format string, args ...any) {
	if !ok {
		c.problems = append(c.problems, fmt.Errorf(format, args...))
	}
}

// add adds an error that names its subject.
func (c *check) add(err error) {
	if err != nil {
		c.problems = append(c.problems, err)
	}
}

// err adds an error with the name of its flag.
func (c *check) err(flag string, err error) {
	if err != nil {
		c.problems = append(c.problems, fmt.Errorf("--%s: %w", flag, err))
	}
}

var errPort = errors.New("the port is not a number from 0 to 65535")
