// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"assay/internal/auth"
	"assay/internal/lists"
)

const (
	envPrefix     = "ASSAY_"
	maxConfigFile = 1 << 20
	maxSecretFile = 64 << 10
)

// settings resolves flags that are not on the command line: from the environment, then from the configuration file. It
// collects errors instead of returning the first, so that all of them are reported together.
type settings struct {
	environ map[string]string // by flag name, without the prefix
	names   map[string]string // of the environment variables, by flag
	known   map[string]bool   // flags of all commands

	loaded bool
	file   map[string]any // texts, and lists of texts as []any
	path   string

	problems []error
	warnings []string
}

func newSettings(environ []string) *settings {
	s := &settings{environ: map[string]string{}, names: map[string]string{}, known: map[string]bool{}}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		short, ok := strings.CutPrefix(name, envPrefix)
		if !ok || value == "" {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(short, "_", "-"))
		if name != envName(flag) {
			flag = name // not in the documented spelling: unknown
		}
		s.environ[flag], s.names[flag] = value, name
	}
	return s
}

// envName returns the environment variable of a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// registerFlags registers all flags below a node, and warns of variables with the prefix that match no flag.
func (s *settings) registerFlags(n *kong.Node) {
	var visit func(*kong.Node)
	visit = func(n *kong.Node) {
		for _, f := range n.Flags {
			if f.Name != "help" && f.Name != "help-all" {
				s.known[f.Name] = true
			}
		}
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(n)
	for _, flag := range slices.Sorted(maps.Keys(s.environ)) {
		if !s.known[flag] {
			s.warnings = append(s.warnings, fmt.Sprintf("the environment variable %s is not a setting of this version", s.names[flag]))
		}
	}
}

// Validate implements kong.Resolver.
func (s *settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (s *settings) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !s.known[flag.Name] {
		return nil, nil
	}
	s.load(ctx)
	if value, ok := s.environ[flag.Name]; ok {
		return s.check(s.names[flag.Name], flag, value), nil
	}
	if value, ok := s.file[flag.Name]; ok && flag.Name != "config" {
		return s.check(s.path+": "+flag.Name, flag, value), nil
	}
	return nil, nil
}

// check returns the value if it is valid for the flag, else nil. A list for a flag with one value is that value, separated
// by commas.
func (s *settings) check(source string, flag *kong.Flag, value any) any {
	if list, ok := value.([]any); ok && !flag.IsSlice() {
		items := lists.Map(list, func(item any) string { return item.(string) })
		value = strings.Join(items, ",")
	}
	target := reflect.New(flag.Target.Type()).Elem()
	err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: kong.Scan().PushTyped(value, kong.FlagValueToken)}, target)
	if text, ok := value.(string); ok && err == nil && flag.Enum != "" && !flag.EnumMap()[text] {
		err = fmt.Errorf("must be one of %s", strings.Join(flag.EnumSlice(), ", "))
	}
	if err != nil {
		s.problems = append(s.problems, fmt.Errorf("%s: %w", source, err))
		return nil
	}
	return value
}

// load reads the file that the flag or the environment names. It reads it once.
func (s *settings) load(ctx *kong.Context) {
	if s.loaded {
		return
	}
	s.loaded = true
	s.path = s.environ["config"]
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			s.path, _ = ctx.FlagValue(p.Flag).(string)
		}
	}
	if s.path == "" {
		return
	}
	text, err := readBounded(s.path, maxConfigFile)
	if err != nil {
		s.problems = append(s.problems, fmt.Errorf("read the configuration file: %w", err))
		return
	}
	var problems []error
	s.file, problems = parseConfig(text, s.known)
	for _, p := range problems {
		s.problems = append(s.problems, fmt.Errorf("%s: %w", s.path, p))
	}
}

// parseConfig parses a YAML mapping of flag names to scalars or lists of scalars. The values are strings, or []any of
// strings, which is what kong decodes without splitting.
func parseConfig(text []byte, known map[string]bool) (map[string]any, []error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, []error{err}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, []error{errors.New("more than one YAML document")}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" { // only comments
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("line %d: a mapping of settings is expected", root.Line)}
	}
	values := make(map[string]any)
	var problems []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		name := key.Value
		_, repeated := values[name]
		value, err := configValue(node)
		switch {
		case !known[name] || name == "config":
			err = fmt.Errorf("unknown key %q", name)
			if flag := strings.ReplaceAll(name, "_", "-"); flag != name && known[flag] {
				err = fmt.Errorf("%w, did you mean %q?", err, flag)
			}
		case repeated:
			err = fmt.Errorf("duplicate key %s", name)
		case err != nil:
			err = fmt.Errorf("%s: %w", name, err)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", key.Line, err))
			continue
		}
		values[name] = value
	}
	return values, problems
}

func configValue(n *yaml.Node) (any, error) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		return n.Value, nil
	case n.Kind == yaml.SequenceNode:
		items := []any{}
		for _, c := range n.Content {
			if c.Kind != yaml.ScalarNode || c.Tag == "!!null" {
				return nil, errors.New("a list of plain values is expected")
			}
			items = append(items, c.Value)
		}
		return items, nil
	default:
		return nil, errors.New("a value is expected")
	}
}

// readBounded reads a whole file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, nil
}

// readSecret returns a secret that is configured as a value or as the path of a file, or "" if it is not configured.
// flag is the name of the value's flag.
func readSecret(flag string, value auth.Secret, file string) (auth.Secret, error) {
	switch {
	case file == "":
		return value, nil
	case value != "":
		return "", fmt.Errorf("--%s and --%s-file are both set", flag, flag)
	}
	text, err := readBounded(file, maxSecretFile)
	if err != nil {
		return "", fmt.Errorf("--%s-file: %w", flag, err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("--%s-file: %s is empty", flag, file)
	}
	return auth.Secret(secret), nil
}
