// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"assay/internal/wire"
)

// request is one request in the spool.
type request struct {
	input  int   // index of its input
	offset int64 // offset in the input
	signal wire.Signal
	body   []byte // uncompressed protobuf
}

// maxSpoolMemory is the number of bytes of requests in memory. The rest is in a temporary file.
const maxSpoolMemory = 64 << 20

// spool stores requests until the newest timestamp of all of them is known. It is not safe for concurrent use.
type spool struct {
	digest hash.Hash // digest of the concatenated bodies
	memory []request
	bytes  int
	file   *os.File
	w      *bufio.Writer
}

// add appends a request. It copies the body.
func (s *spool) add(r request) error {
	_, _ = s.digest.Write(r.body) // never fails
	if s.file == nil && s.bytes+len(r.body) <= maxSpoolMemory {
		r.body = append([]byte(nil), r.body...)
		s.memory = append(s.memory, r)
		s.bytes += len(r.body) + 64
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp("", "assay-score-*")
		if err != nil {
			return fmt.Errorf("create spool file: %w", err)
		}
		s.file, s.w = f, bufio.NewWriterSize(f, 1<<20)
	}
	head := make([]byte, 0, 32)
	head = binary.AppendUvarint(head, uint64(r.input))
	head = binary.AppendUvarint(head, uint64(r.offset))
	head = append(head, byte(r.signal))
	head = binary.AppendUvarint(head, uint64(len(r.body)))
	_, err := s.w.Write(head)
	if err == nil {
		_, err = s.w.Write(r.body)
	}
	if err != nil {
		return fmt.Errorf("write spool file: %w", err)
	}
	return nil
}

// each calls f for every request in the order of add. A body is valid during the call only.
func (s *spool) each(f func(request) error) error {
	for i := range s.memory {
		if err := f(s.memory[i]); err != nil {
			return err
		}
		s.memory[i].body = nil
	}
	if s.file == nil {
		return nil
	}
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("write spool file: %w", err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read spool file: %w", err)
	}
	r := bufio.NewReaderSize(s.file, 1<<20)
	var body []byte
	for {
		req, err := readRequest(r, &body)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read spool file: %w", err)
		}
		if err := f(req); err != nil {
			return err
		}
	}
}

func readRequest(r *bufio.Reader, buf *[]byte) (request, error) {
	var req request
	input, err := binary.ReadUvarint(r)
	if err != nil {
		return req, err // io.EOF at the end
	}
	offset, err1 := binary.ReadUvarint(r)
	signal, err2 := r.ReadByte()
	size, err3 := binary.ReadUvarint(r)
	if err := errors.Join(err1, err2, err3); err != nil {
		return req, io.ErrUnexpectedEOF
	}
	if uint64(cap(*buf)) < size {
		*buf = make([]byte, size)
	}
	*buf = (*buf)[:size]
	if _, err := io.ReadFull(r, *buf); err != nil {
		return req, io.ErrUnexpectedEOF
	}
	return request{input: int(input), offset: int64(offset), signal: wire.Signal(signal), body: *buf}, nil
}

// Close removes the temporary file.
func (s *spool) Close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}
