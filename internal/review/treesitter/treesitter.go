// SPDX-License-Identifier: Apache-2.0

package treesitter

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // the grammars
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

//go:embed grammars/grammars.wasm.gz
var grammars []byte

// Language is a grammar.
type Language uint8

// The grammars. JavaScript includes JSX; TypeScript does not, because `<T>x` is a type assertion there.
const (
	JavaScript Language = iota
	TypeScript
	TSX
	Python
	Java
	languageCount
)

// MaxSource is the size in bytes of the largest source that Parse accepts.
const MaxSource = 512 << 10

// The limits of one parse. Sources in public packages take up to 2 operations, allocate up to 160 bytes and have the
// lexer read up to 25 bytes for each of their bytes. The lexer of Python reads a comment of n lines n times.
const (
	maxMemory         = 128 << 20 // of an instance, in bytes; grammars.wasm.gz declares the same
	operationsPerByte = 10
	allocatedPerByte  = 500
	readPerByte       = 100
	baseOperations    = 10_000
	baseAllocated     = 4 << 20
	baseRead          = 32 << 20
	// An instance never returns memory to the operating system, so one that has grown beyond this is not kept.
	maxIdleMemory = 32 << 20
)

// Errors of Parse about the source.
var (
	ErrTooLarge   = fmt.Errorf("source larger than %d bytes", MaxSource)
	ErrTooComplex = errors.New("source too complex")
)

// Parser parses sources. It is safe for concurrent use: concurrent calls of Parse run in separate instances of the
// module, each with up to 128 MiB of memory. Idle instances are kept, so a Parser holds as many as ran at once.
type Parser struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	module  wazero.CompiledModule
	names   [languageCount]names

	mu   sync.Mutex
	idle []*instance
}

// names has the names that nodes refer to by number.
type names struct{ symbols, fields []string }

// New compiles the grammars to machine code, or loads the code from cacheDir, which only the user of this process may
// be able to write: its content is executed. Without cacheDir, each New compiles again.
func New(ctx context.Context, cacheDir string) (_ *Parser, err error) {
	p := &Parser{}
	defer func() {
		if err != nil {
			_ = p.Close(ctx)
		}
	}()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(maxMemory >> 16)
	if cacheDir != "" {
		if p.cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
			return nil, fmt.Errorf("open cache of grammars: %w", err)
		}
		config = config.WithCompilationCache(p.cache)
	}
	p.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	unzip, err := gzip.NewReader(bytes.NewReader(grammars))
	if err != nil {
		return nil, fmt.Errorf("read grammars: %w", err)
	}
	binary, err := io.ReadAll(unzip)
	if err != nil {
		return nil, fmt.Errorf("read grammars: %w", err)
	}
	if p.module, err = p.runtime.CompileModule(ctx, binary); err != nil {
		return nil, fmt.Errorf("compile grammars: %w", err)
	}
	i, err := p.instance(ctx)
	if err != nil {
		return nil, err
	}
	for l := range languageCount {
		if p.names[l], err = i.names(ctx, l); err != nil {
			return nil, fmt.Errorf("read names of grammar %d: %w", l, err)
		}
	}
	p.release(ctx, i)
	return p, nil
}

// Close frees the module and its instances. No call of Parse may be running.
func (p *Parser) Close(ctx context.Context) error {
	var errs []error
	if p.runtime != nil {
		errs = append(errs, p.runtime.Close(ctx))
	}
	if p.cache != nil {
		errs = append(errs, p.cache.Close(ctx))
	}
	return errors.Join(errs...)
}

// Parse returns the tree of a source. Parts that do not match the grammar are nodes with Error or Missing, so every
// source has a tree unless it is larger than MaxSource (ErrTooLarge) or exceeds the limits of work and memory
// (ErrTooComplex), which are linear in its size. A parse that has begun does not end with its context: checking it
// makes parsing 3.5 times slower.
func (p *Parser) Parse(ctx context.Context, language Language, source []byte) (*Tree, error) {
	tree, _, err := p.parse(ctx, language, source)
	return tree, err
}

// work is the amount of work of a parse.
type work struct {
	operations uint64 // steps of the parser
	allocated  uint64 // bytes
	read       uint64 // bytes that the lexer has read, repeated ones too
	memory     uint32 // size of the instance afterwards, in bytes
}

func (p *Parser) parse(ctx context.Context, language Language, source []byte) (*Tree, work, error) {
	if len(source) > MaxSource {
		return nil, work{}, ErrTooLarge
	}
	if err := ctx.Err(); err != nil {
		return nil, work{}, err
	}
	i, err := p.instance(ctx)
	if err != nil {
		return nil, work{}, err
	}
	nodes, took, err := i.parse(context.WithoutCancel(ctx), language, source)
	if err != nil {
		_ = i.module.Close(ctx)         // its state is undefined after a trap
		return nil, took, ErrTooComplex // the error of the runtime is a stack trace
	}
	p.release(ctx, i)
	return &Tree{Nodes: nodes, names: &p.names[language]}, took, nil
}

// instance returns an idle instance or a new one.
func (p *Parser) instance(ctx context.Context) (*instance, error) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		i := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return i, nil
	}
	p.mu.Unlock()
	module, err := p.runtime.InstantiateModule(ctx, p.module, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, fmt.Errorf("start grammars: %w", err)
	}
	i := &instance{module: module, buffer: module.ExportedFunction("source_buffer"), run: module.ExportedFunction("parse")}
	if i.result, err = i.call(ctx, "result"); err != nil {
		return nil, fmt.Errorf("start grammars: %w", err)
	}
	return i, nil
}

func (p *Parser) release(ctx context.Context, i *instance) {
	if i.module.Memory().Size() > maxIdleMemory {
		_ = i.module.Close(ctx)
		return
	}
	p.mu.Lock()
	p.idle = append(p.idle, i)
	p.mu.Unlock()
}

// instance is a running module, for one parse at a time. grammars/shim.c describes its functions and structures.
type instance struct {
	module      api.Module
	buffer, run api.Function
	result      uint32 // address
}

func (i *instance) call(ctx context.Context, name string, args ...uint64) (uint32, error) {
	r, err := i.module.ExportedFunction(name).Call(ctx, args...)
	if err != nil {
		return 0, err
	}
	return api.DecodeU32(r[0]), nil
}

var errMemory = errors.New("address outside of the memory")

func (i *instance) parse(ctx context.Context, language Language, source []byte) ([]Node, work, error) {
	size := uint64(len(source))
	r, err := i.buffer.Call(ctx, size)
	if err != nil {
		return nil, work{}, err
	}
	if !i.module.Memory().Write(api.DecodeU32(r[0]), source) {
		return nil, work{}, errMemory
	}
	_, err = i.run.Call(ctx, uint64(language), (baseOperations+operationsPerByte*size)/100, baseAllocated+allocatedPerByte*size, baseRead+readPerByte*size)
	result, ok := i.module.Memory().Read(i.result, 32)
	if !ok {
		return nil, work{}, errMemory
	}
	took := work{
		operations: 100 * uint64(binary.LittleEndian.Uint32(result[8:])),
		allocated:  binary.LittleEndian.Uint64(result[16:]),
		read:       binary.LittleEndian.Uint64(result[24:]),
		memory:     i.module.Memory().Size(),
	}
	if err != nil {
		return nil, took, err
	}
	const nodeSize = 24
	raw, ok := i.module.Memory().Read(binary.LittleEndian.Uint32(result), nodeSize*binary.LittleEndian.Uint32(result[4:]))
	if !ok {
		return nil, took, errMemory
	}
	nodes := make([]Node, len(raw)/nodeSize)
	for k := range nodes {
		b := raw[k*nodeSize : (k+1)*nodeSize]
		flags := b[20]
		nodes[k] = Node{
			Symbol:  binary.LittleEndian.Uint16(b),
			Field:   binary.LittleEndian.Uint16(b[2:]),
			Start:   binary.LittleEndian.Uint32(b[4:]),
			End:     binary.LittleEndian.Uint32(b[8:]),
			Parent:  int32(binary.LittleEndian.Uint32(b[12:])),
			Next:    int32(binary.LittleEndian.Uint32(b[16:])),
			Named:   flags&1 != 0,
			Error:   flags&2 != 0,
			Missing: flags&4 != 0,
		}
	}
	return nodes, took, nil
}

func (i *instance) names(ctx context.Context, language Language) (names, error) {
	list := func(count, name string, first uint32) ([]string, error) {
		n, err := i.call(ctx, count, uint64(language))
		if err != nil {
			return nil, err
		}
		out := make([]string, n+first)
		for k := first; k < n+first; k++ {
			at, err := i.call(ctx, name, uint64(language), uint64(k))
			if err != nil {
				return nil, err
			}
			text, _ := i.module.Memory().Read(at, 64)
			before, _, ok := bytes.Cut(text, []byte{0})
			if !ok {
				return nil, errMemory
			}
			out[k] = string(before)
		}
		return out, nil
	}
	symbols, err := list("symbol_count", "symbol_name", 0)
	if err != nil {
		return names{}, err
	}
	fields, err := list("field_count", "field_name", 1) // 0 is no field
	return names{symbols, fields}, err
}
