// SPDX-License-Identifier: Apache-2.0

// The functions that the host calls. They parse a source with a bounded amount of work and
// write the tree as a flat array, which the host reads at once. The module has no imports: it
// can use its memory and nothing else. Every failure is a trap, after which the host discards
// the instance.

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <tree_sitter/api.h>

#define EXPORT(name) __attribute__((export_name(#name)))

extern const TSLanguage *tree_sitter_javascript(void);
extern const TSLanguage *tree_sitter_typescript(void);
extern const TSLanguage *tree_sitter_tsx(void);
extern const TSLanguage *tree_sitter_python(void);
extern const TSLanguage *tree_sitter_java(void);

// The order is that of the constants of type Language in treesitter.go.
static const TSLanguage *(*const languages[])(void) = {
	tree_sitter_javascript, tree_sitter_typescript, tree_sitter_tsx, tree_sitter_python, tree_sitter_java,
};

enum { NAMED = 1, ERROR = 2, MISSING = 4 };

enum { PIECE = 128 }; // bytes of the source that the lexer gets at once

// A node as the host reads it: 24 bytes, little-endian.
struct node {
	uint16_t symbol, field;
	uint32_t start, end; // byte offsets
	int32_t parent;      // index, -1 for the root
	int32_t next;        // index of the first node after the subtree
	uint32_t flags;
};

// The result of the last parse and its work.
static struct {
	struct node *nodes;
	uint32_t count;
	uint32_t operations; // hundreds of steps of the parser
	uint64_t allocated;  // bytes in all allocations, freed ones too
	uint64_t read;       // bytes that the lexer has got, repeated ones too
	uint64_t max_allocated;
	uint64_t max_read;
	uint32_t max_operations;
} work;

// The parser reports its steps every hundred. Error recovery takes few steps and copies long
// lists of nodes in each, so allocations count as well.
static bool progress(TSParseState *state) {
	(void)state;
	if (++work.operations > work.max_operations) __builtin_trap();
	return false;
}

static void count(uint64_t size) {
	work.allocated += size;
	if (work.allocated > work.max_allocated) __builtin_trap();
}

static void *check(void *p) {
	if (!p) __builtin_trap();
	return p;
}

static void *counted_malloc(size_t size) {
	count(size);
	return check(malloc(size));
}

static void *counted_calloc(size_t n, size_t size) {
	count((uint64_t)n * size);
	return check(calloc(n, size));
}

static void *counted_realloc(void *p, size_t size) {
	count(size);
	return check(realloc(p, size));
}

EXPORT(symbol_count) uint32_t symbol_count(uint32_t language) {
	return ts_language_symbol_count(languages[language]());
}

EXPORT(symbol_name) const char *symbol_name(uint32_t language, uint32_t symbol) {
	return ts_language_symbol_name(languages[language](), symbol);
}

EXPORT(field_count) uint32_t field_count(uint32_t language) {
	return ts_language_field_count(languages[language]());
}

EXPORT(field_name) const char *field_name(uint32_t language, uint32_t field) {
	return ts_language_field_name_for_id(languages[language](), field);
}

static void write_node(struct node *to, TSTreeCursor *cursor, int32_t parent) {
	TSNode node = ts_tree_cursor_current_node(cursor);
	to->symbol = ts_node_symbol(node);
	to->field = ts_tree_cursor_current_field_id(cursor);
	to->start = ts_node_start_byte(node);
	to->end = ts_node_end_byte(node);
	to->parent = parent;
	to->flags = (ts_node_is_named(node) ? NAMED : 0) | (ts_node_is_error(node) ? ERROR : 0) |
		(ts_node_is_missing(node) ? MISSING : 0);
}

// write_tree writes the nodes in preorder. It does not recurse: the source decides the depth.
static void write_tree(TSTree *tree) {
	uint32_t count = ts_node_descendant_count(ts_tree_root_node(tree));
	work.nodes = check(malloc(count * sizeof *work.nodes));
	TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
	int32_t current = 0, parent;
	write_node(&work.nodes[0], &cursor, -1);
	work.count = 1;
	for (;;) {
		parent = current;
		if (!ts_tree_cursor_goto_first_child(&cursor)) {
			for (;;) {
				work.nodes[current].next = (int32_t)work.count;
				parent = work.nodes[current].parent;
				if (parent < 0 || ts_tree_cursor_goto_next_sibling(&cursor)) break;
				ts_tree_cursor_goto_parent(&cursor);
				current = parent;
			}
			if (parent < 0) break;
		}
		if (work.count == count) __builtin_trap();
		current = (int32_t)work.count++;
		write_node(&work.nodes[current], &cursor, parent);
	}
	ts_tree_cursor_delete(&cursor);
}

static char *source;
static uint32_t source_size;

// source_buffer returns memory for a source, which lasts until the next parse ends.
EXPORT(source_buffer) char *source_buffer(uint32_t size) {
	free(work.nodes);
	work.nodes = NULL;
	source_size = size;
	return source = check(malloc(size));
}

// read_source gives the lexer a piece of the source. A scanner may look far ahead in one step of
// the parser: Python's reads all comments that follow each one of them. So the pieces are short,
// and their bytes count.
static const char *read_source(void *payload, uint32_t offset, TSPoint position, uint32_t *size) {
	(void)payload, (void)position;
	const uint32_t left = offset < source_size ? source_size - offset : 0;
	*size = left < PIECE ? left : PIECE;
	work.read += *size;
	if (work.read > work.max_read) __builtin_trap();
	return *size ? source + offset : "";
}

// parse parses the bytes in the source buffer. Its parser is a new one, because the allocations
// of a used one depend on what it has parsed.
EXPORT(parse) void parse(uint32_t language, uint32_t max_operations, uint64_t max_allocated, uint64_t max_read) {
	work.count = work.operations = 0;
	work.allocated = work.read = 0;
	work.max_operations = max_operations;
	work.max_allocated = max_allocated;
	work.max_read = max_read;
	ts_set_allocator(counted_malloc, counted_calloc, counted_realloc, free);
	TSParser *parser = ts_parser_new();
	ts_parser_set_language(parser, languages[language]());
	TSTree *tree = ts_parser_parse_with_options(parser, NULL,
		(TSInput){.read = read_source, .encoding = TSInputEncodingUTF8},
		(TSParseOptions){.progress_callback = progress});
	ts_parser_delete(parser);
	write_tree(tree);
	ts_tree_delete(tree);
	free(source);
}

EXPORT(result) const void *result(void) { return &work; }

// What the C library would import for the parser's clock, which has no limit set, and for its
// debug output.
int __imported_wasi_snapshot_preview1_clock_time_get(int clock, long long precision, int to) {
	(void)clock, (void)precision, (void)to;
	__builtin_trap();
}
int __imported_wasi_snapshot_preview1_fd_close(int fd) {
	(void)fd;
	__builtin_trap();
}
int __imported_wasi_snapshot_preview1_fd_seek(int fd, long long offset, int whence, int to) {
	(void)fd, (void)offset, (void)whence, (void)to;
	__builtin_trap();
}
int __imported_wasi_snapshot_preview1_fd_write(int fd, int iovs, int count, int to) {
	(void)fd, (void)iovs, (void)count, (void)to;
	__builtin_trap();
}
