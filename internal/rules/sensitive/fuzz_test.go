// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func FuzzText(f *testing.F) {
	for _, name := range corpora {
		for _, s := range readCorpus(f, name) {
			f.Add([]byte(s.Value))
		}
	}
	for _, s := range hostile {
		f.Add(bytes.Repeat([]byte(s), 5))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		kind := Text(s)
		if again := Text(s); again != kind {
			t.Fatalf("found %s, then %s", kind, again)
		}
		if kind != None {
			// Neutral words around a text do not hide sensitive data in it.
			if Text(append([]byte("lorem "), s...)) == None {
				t.Fatalf("%s is lost behind a word", kind)
			}
			if Text(append(bytes.Clone(s), " ipsum"...)) == None {
				t.Fatalf("%s is lost before a word", kind)
			}
		}
		clean := Clean(s)
		if !utf8.ValidString(clean) {
			t.Fatal("the clean text is not valid UTF-8")
		}
		if left := Text([]byte(clean)); left != None {
			t.Fatalf("%s is left in the clean text", left)
		}
		if kind == None && utf8.Valid(s) && clean != string(s) {
			t.Fatal("a text without findings was changed")
		}
	})
}

func FuzzNamed(f *testing.F) {
	for _, name := range corpora {
		for _, s := range readCorpus(f, name) {
			f.Add([]byte(s.Key), []byte(s.Value), int64(4242424242424242))
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte, v int64) {
		kind := Named(key, value)
		if kind == None && Text(value) != None && !opaque(key) {
			t.Fatal("detected in the text, but not under the key")
		}
		clean := CleanNamed(key, value)
		if left := Named(key, []byte(clean)); left != None {
			t.Fatalf("%s is left in the clean value", left)
		}
		if kind == None && utf8.Valid(value) && clean != string(value) {
			t.Fatal("a value without findings was changed")
		}
		if v <= 0 && Integer(key, v) != None {
			t.Fatal("found in an integer that is not positive")
		}
		if Flag(key) && UnderKey(bytes.TrimLeft(key, "-")).secret(value) && FlagValue(value) == None && len(value) > 0 && value[0] != '-' {
			t.Fatal("a secret by name is none after a flag of the name")
		}
	})
}
