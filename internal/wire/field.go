// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
)

// Protobuf wire types, the low three bits of a tag.
const (
	typeVarint     = 0
	typeFixed64    = 1
	typeLen        = 2
	typeStartGroup = 3
	typeEndGroup   = 4
	typeFixed32    = 5
)

const (
	// maxTag is the tag of the largest field number, 1<<29 - 1.
	maxTag = 1<<32 - 1
	// Limits of unknown groups. No OTLP message has ever contained a group.
	maxGroupDepth = 64
	maxGroupBytes = 64 << 10
)

// field reads the field that starts at b[i]. It returns the tag (number<<3 | wire type) and the end of the field. The
// payload of a length-delimited field is b[v:end]. For other types v is the value; for a group, which field skips, v
// is zero.
//
// A tag of zero means that the input is malformed; explain returns the reason. With an invalid tag instead of an
// error, the hot loops need one switch and no error check: any unexpected tag ends up in the default case.
func field(b []byte, i int) (tag, v uint64, end int) {
	if uint(i) >= uint(len(b)) {
		return 0, 0, 0
	}
	tag = uint64(b[i])
	i++
	if tag >= 0x80 {
		tag, i = uvarint(b, i-1)
		if i < 0 || tag > maxTag {
			return 0, 0, 0
		}
	}
	if tag < 1<<3 {
		return 0, 0, 0
	}
	switch tag & 7 {
	case typeLen:
		if uint(i) >= uint(len(b)) {
			return 0, 0, 0
		}
		n := uint64(b[i])
		i++
		if n >= 0x80 {
			n, i = uvarint(b, i-1)
			if i < 0 {
				return 0, 0, 0
			}
		}
		if n > uint64(len(b)-i) {
			return 0, 0, 0
		}
		return tag, uint64(i), i + int(n)
	case typeVarint:
		if uint(i) < uint(len(b)) && b[i] < 0x80 {
			return tag, uint64(b[i]), i + 1
		}
		v, i = uvarint(b, i)
		if i < 0 {
			return 0, 0, 0
		}
		return tag, v, i
	case typeFixed64:
		if len(b)-i < 8 {
			return 0, 0, 0
		}
		return tag, binary.LittleEndian.Uint64(b[i:]), i + 8
	case typeFixed32:
		if len(b)-i < 4 {
			return 0, 0, 0
		}
		return tag, uint64(binary.LittleEndian.Uint32(b[i:])), i + 4
	case typeStartGroup:
		if uint(i) < uint(len(b)) && uint64(b[i]) == tag+1 && b[i] < 0x80 { // the end of an empty group
			return tag, 0, i + 1
		}
		i = skipGroup(b[:min(len(b), i+maxGroupBytes)], i, tag>>3, 1)
		if i < 0 {
			return 0, 0, 0
		}
		return tag, 0, i
	default:
		return 0, 0, 0
	}
}

// uvarint reads the varint at b[i]. It returns the value and the position after it, or -1 if the varint is truncated
// or longer than ten bytes. Bits beyond the 64th are dropped, as in the C++, Java and Collector decoders.
func uvarint(b []byte, i int) (uint64, int) {
	if len(b)-i >= 2 && b[i+1] < 0x80 {
		if b[i] < 0x80 {
			return uint64(b[i]), i + 1
		}
		return uint64(b[i]&0x7f) | uint64(b[i+1])<<7, i + 2
	}
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		if i >= len(b) {
			return 0, -1
		}
		c := b[i]
		i++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i
		}
	}
	return 0, -1
}

// skipGroup returns the position after the group with the given field number whose content
// starts at b[i], or -1. depth is its level, from 1 to maxGroupDepth.
func skipGroup(b []byte, i int, number uint64, depth int) int {
	for {
		tag, next := uvarint(b, i)
		if next < 0 || tag < 1<<3 || tag > maxTag {
			return -1
		}
		switch tag & 7 {
		case typeStartGroup:
			if depth == maxGroupDepth {
				return -1
			}
			if i = skipGroup(b, next, tag>>3, depth+1); i < 0 {
				return -1
			}
		case typeEndGroup:
			if tag>>3 != number {
				return -1
			}
			return next
		default:
			if tag, _, i = field(b, i); tag == 0 {
				return -1
			}
		}
	}
}

// explain describes the error in the field at b[i]. It repeats the checks of field and of the caller's switch
// on the slow path. names holds the names of the message's known fields by number. explain returns the position of
// the fault, the name of the field if it is known, and the reason.
func explain(b []byte, i int, names []string) (at int, name, reason string) {
	tag, next := uvarint(b, i)
	switch {
	case next < 0:
		return i, "", "tag is " + brokenVarint(b, i)
	case tag < 1<<3:
		return i, "", "field number 0"
	case tag > maxTag:
		return i, "", "field number is out of range"
	}
	number := tag >> 3
	if number < uint64(len(names)) {
		name = names[number]
	}
	if name == "" {
		name = fmt.Sprint(number)
	} else if tag, _, _ := field(b, i); tag != 0 {
		return i, name, fmt.Sprintf("wire type %d does not match the field", tag&7)
	}
	switch tag & 7 {
	case typeVarint:
		return next, name, "value is " + brokenVarint(b, next)
	case typeFixed64:
		return next, name, fmt.Sprintf("value needs 8 bytes, %d left", len(b)-next)
	case typeFixed32:
		return next, name, fmt.Sprintf("value needs 4 bytes, %d left", len(b)-next)
	case typeLen:
		n, start := uvarint(b, next)
		if start < 0 {
			return next, name, "length is " + brokenVarint(b, next)
		}
		return next, name, fmt.Sprintf("length is %d, %d bytes left", n, len(b)-start)
	case typeStartGroup:
		return i, name, fmt.Sprintf("group is malformed, not closed, nested more than %d deep, or larger than %d KiB",
			maxGroupDepth, maxGroupBytes>>10)
	case typeEndGroup:
		return i, name, "end group without start group"
	default:
		return i, name, fmt.Sprintf("invalid wire type %d", tag&7)
	}
}

// brokenVarint describes why uvarint rejected the varint at b[i].
func brokenVarint(b []byte, i int) string {
	if len(b)-i >= 10 {
		return "a varint longer than 10 bytes"
	}
	return "a truncated varint"
}
