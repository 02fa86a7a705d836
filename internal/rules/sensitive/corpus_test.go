// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is one line of a corpus: an attribute, or a text if the key is empty, and the kind of sensitive data
// in it.
type sample struct {
	Category string          `json:"category"`
	Key      string          `json:"key"`
	Type     string          `json:"type"`
	Value    json.RawMessage `json:"value"`
	Kind     string          `json:"kind"`
	Note     string          `json:"note"`
}

// corpora are the files of testdata.
var corpora = []string{"holdout.jsonl", "corpus.jsonl"}

func readCorpus(t testing.TB, name string) []sample {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	var out []sample
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var s sample
		require.NoError(t, json.Unmarshal(lines.Bytes(), &s), "line %d", len(out)+1)
		out = append(out, s)
	}
	require.NoError(t, lines.Err())
	return out
}

// detect searches a value like the rules: its key and all nested values.
func detect(t testing.TB, key string, value json.RawMessage) Kind {
	t.Helper()
	if k := Key([]byte(key)); k != None {
		return k
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return detectValue(t, key, v)
}

func detectValue(t testing.TB, key string, v any) Kind {
	t.Helper()
	switch v := v.(type) {
	case string:
		return Named([]byte(key), []byte(v))
	case json.Number:
		n, err := v.Int64()
		require.NoError(t, err)
		return Integer([]byte(key), n)
	case []any:
		flag := false
		for _, e := range v {
			if k := detectValue(t, key, e); k != None {
				return k
			}
			s, _ := e.(string)
			if flag {
				if k := FlagValue([]byte(s)); k != None {
					return k
				}
			}
			flag = Flag([]byte(s))
		}
	case map[string]any:
		for key, e := range v {
			if k := detectValue(t, key, e); k != None {
				return k
			}
		}
	}
	return None
}

// A score counts the findings in a corpus.
type score struct{ truePositive, falsePositive, falseNegative, trueNegative, wrongKind int }

func (s score) precision() float64 {
	return float64(s.truePositive) / float64(s.truePositive+s.falsePositive)
}

func (s score) recall() float64 {
	return float64(s.truePositive) / float64(s.truePositive+s.falseNegative)
}

func measure(t *testing.T, corpus string) (sum score) {
	t.Helper()
	for i, s := range readCorpus(t, corpus) {
		got := detect(t, s.Key, s.Value)
		switch {
		case got == None && s.Kind == "none":
			sum.trueNegative++
		case got == None:
			sum.falseNegative++
			t.Logf("%s:%d: missed %s (%s)", corpus, i+1, s.Kind, s.Category)
		case s.Kind == "none":
			sum.falsePositive++
			t.Logf("%s:%d: found %s, there is none (%s)", corpus, i+1, got, s.Category)
		default:
			sum.truePositive++
			if got.String() != s.Kind {
				sum.wrongKind++
				t.Logf("%s:%d: found %s, want %s", corpus, i+1, got, s.Kind)
			}
		}
	}
	t.Logf("%s: %+v, precision %.4f, recall %.4f", corpus, sum, sum.precision(), sum.recall())
	return sum
}

// TestCorpus pins the findings in both corpora, so that a regression is visible.
// docs/sensitive-data.md explains the numbers.
func TestCorpus(t *testing.T) {
	for corpus, floor := range map[string]struct {
		positives, negatives int
		precision, recall    float64
	}{
		"corpus.jsonl":  {positives: 464, negatives: 620, precision: 1, recall: 1},
		"holdout.jsonl": {positives: 339, negatives: 434, precision: 0.997, recall: 1},
	} {
		t.Run(corpus, func(t *testing.T) {
			got := measure(t, corpus)
			require.Equal(t, floor.positives, got.truePositive+got.falseNegative, "the docs quote the size")
			require.Equal(t, floor.negatives, got.trueNegative+got.falsePositive, "the docs quote the size")
			require.GreaterOrEqual(t, got.precision(), floor.precision)
			require.GreaterOrEqual(t, got.recall(), floor.recall)
			require.Zero(t, got.wrongKind)
		})
	}
}

// TestCleanCorpus cleans every text of the corpora.
func TestCleanCorpus(t *testing.T) {
	for _, corpus := range corpora {
		for i, s := range readCorpus(t, corpus) {
			var text string
			if s.Type != "string" {
				continue
			}
			require.NoError(t, json.Unmarshal(s.Value, &text))
			clean := CleanNamed([]byte(s.Key), []byte(text))
			require.Equal(t, None, Named([]byte(s.Key), []byte(clean)), "%s:%d", corpus, i+1)
			if s.Kind == "none" && Named([]byte(s.Key), []byte(text)) == None {
				require.Equal(t, text, clean, "%s:%d", corpus, i+1)
			}
		}
	}
}
