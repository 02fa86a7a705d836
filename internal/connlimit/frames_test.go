// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// stream is the server side of a connection whose client has sent some bytes.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (stream) RemoteAddr() net.Addr         { return address("client") }

// written returns what a client sends: the preface and the frames that f writes.
func written(tb testing.TB, f func(*http2.Framer) error) []byte {
	tb.Helper()
	var sent bytes.Buffer
	_, _ = sent.WriteString(http2.ClientPreface)
	require.NoError(tb, f(http2.NewFramer(&sent, nil)))
	return sent.Bytes()
}

// frames are frames by name, each with what it costs in addition to the preface.
var frames = []struct {
	name  string
	write func(*http2.Framer) error
	cost  int
}{
	{"none", func(*http2.Framer) error { return nil }, 0},
	{"SETTINGS", func(f *http2.Framer) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
	}, 9 + 6 + frameCost},
	{"PING", func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }, 9 + 8 + frameCost},
	{"RST_STREAM", func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeCancel) }, 9 + 4 + frameCost},
	{"HEADERS", func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 100), EndHeaders: true})
	}, 9 + 100/headerPart + frameCost + headersCost},
	{"CONTINUATION", func(f *http2.Framer) error {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1}); err != nil {
			return err
		}
		return f.WriteContinuation(1, true, make([]byte, 100))
	}, 9 + frameCost + headersCost + 9 + 100 + frameCost},
	{"DATA", func(f *http2.Framer) error { return f.WriteData(1, false, make([]byte, 10_000)) }, 9 + frameCost},
	{"DATA, padded", func(f *http2.Framer) error { return f.WriteDataPadded(1, true, make([]byte, 10), make([]byte, 255)) }, 9 + frameCost},
	{"DATA, then PING", func(f *http2.Framer) error {
		if err := f.WriteData(1, true, make([]byte, 300)); err != nil {
			return err
		}
		return f.WritePing(true, [8]byte{})
	}, 9 + frameCost + 9 + 8 + frameCost},
	{"unknown", func(f *http2.Framer) error { return f.WriteRawFrame(0xbe, 0xff, 1, make([]byte, 70_000)) }, 9 + 70_000 + frameCost},
}

func TestFrameCost(t *testing.T) {
	for _, c := range frames {
		t.Run(c.name, func(t *testing.T) {
			f := framed{in: frame{left: len(http2.ClientPreface), kind: preface}}
			require.Equal(t, len(http2.ClientPreface)+c.cost, f.cost(written(t, c.write)))
		})
	}
}

// TestSmallReads: bytes are read in small pieces unless most of the last ones were telemetry.
func TestSmallReads(t *testing.T) {
	l := New(Config{Limit: 1})
	conn := l.add(&remote{addr: "client"})
	conn.Identify("a")
	for _, c := range []struct {
		name  string
		write func(*http2.Framer) error
		want  int // bytes of the third read
	}{
		{"HEADERS", func(f *http2.Framer) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 16<<10), EndHeaders: true})
		}, smallRead},
		{"DATA", func(f *http2.Framer) error { return f.WriteData(1, true, make([]byte, 16<<10)) }, 4 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			framed := conn.Framed(stream{Reader: bytes.NewReader(written(t, c.write))}, time.Minute)
			var n int
			for range 3 {
				var err error
				n, err = framed.Read(make([]byte, 4<<10))
				require.NoError(t, err)
			}
			require.Equal(t, c.want, n)
		})
	}
}

// FuzzFrameCost: the cost of bytes, and the state after them, do not depend on the reads that they arrive in.
func FuzzFrameCost(f *testing.F) {
	for _, c := range frames {
		f.Add(written(f, c.write), 7)
		f.Add(written(f, c.write), 40)
	}
	f.Fuzz(func(t *testing.T, sent []byte, size int) {
		whole := framed{in: frame{left: len(http2.ClientPreface), kind: preface}}
		want := whole.cost(sent)
		pieces := framed{in: frame{left: len(http2.ClientPreface), kind: preface}}
		got := 0
		for rest := sent; len(rest) > 0; {
			n := max(1, min(len(rest), size))
			got += pieces.cost(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, want, got)
		require.Equal(t, whole, pieces)
	})
}
