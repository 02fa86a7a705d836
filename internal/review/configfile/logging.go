// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// logging adds the level of each logger to Environment, with the name "root" for the root logger. It reads the source from
// start. It skips documents of Spring Boot properties that are not for production.
func (f *File) logging(base string, start int) error {
	if strings.HasSuffix(base, ".xml") {
		return f.loggingXML(start)
	}
	offset, first := start, 0 // offset of the line, index of the document's first variable
	for line := range bytes.Lines(f.Source[start:]) {
		if text := string(bytes.TrimSpace(line)); text == "#---" || text == "!---" {
			first = f.endProperties(first)
		}
		f.assignment(line, offset)
		offset += len(line)
	}
	f.endProperties(first)
	for i := range f.Environment {
		v := &f.Environment[i]
		switch name := strings.ToLower(v.Name); {
		case name == "rootlogger.level", name == "rootlogger", name == "log4j.rootlogger", name == "logging.level.root":
			v.Name = "root"
			v.Value, _, _ = strings.Cut(v.Value, ",")
		case strings.HasPrefix(name, "logging.level."):
			v.Name = v.Name[len("logging.level."):]
		}
	}
	return nil
}

// loggingXML reads the levels of root and logger elements in configurations of logback and Log4j 2. It skips Spring
// profiles that are not for production.
func (f *File) loggingXML(from int) error {
	d := xml.NewDecoder(bytes.NewReader(f.Source[from:]))
	d.Strict = false
	logger := ""
	var profiles []bool // for each open element, whether a profile around it excludes production
	for {
		start := from + int(d.InputOffset())
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to parse XML: %w", err)
		}
		if _, ok := token.(xml.EndElement); ok && len(profiles) > 0 {
			profiles = profiles[:len(profiles)-1]
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		skip := len(profiles) > 0 && profiles[len(profiles)-1]
		if strings.EqualFold(e.Name.Local, "springProfile") {
			skip = skip || !inProduction(attribute(e, "name"))
		}
		profiles = append(profiles, skip)
		if skip {
			continue
		}
		end := from + int(d.InputOffset())
		level := ""
		switch strings.ToLower(e.Name.Local) {
		case "root", "asyncroot":
			logger, level = "root", attribute(e, "level")
		case "logger", "asynclogger":
			logger, level = attribute(e, "name"), attribute(e, "level")
		case "level":
			level = attribute(e, "value")
		}
		if level == "" || logger == "" {
			continue
		}
		v := Variable{Name: logger, Value: level, Literal: literal(level), Start: start, End: end}
		if at := bytes.LastIndex(f.Source[start:end], []byte(level)); at >= 0 {
			v.Start, v.End = start+at, start+at+len(level)
		}
		f.addVariable(v)
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if strings.EqualFold(a.Name.Local, name) {
			return a.Value
		}
	}
	return ""
}

// endProperties ends a document of properties. It removes the variables of a document that is not for production, and
// returns the index of the next document's first variable.
func (f *File) endProperties(first int) int {
	for _, v := range f.Environment[first:] {
		if (v.Name == "spring.config.activate.on-profile" || v.Name == "spring.profiles") && !inProduction(v.Value) {
			f.Environment = f.Environment[:first]
			break
		}
	}
	return len(f.Environment)
}

// springYAML reads logging.level in a document of application.yaml. It skips documents that are not for production.
func (f *File) springYAML() {
	profiles := cmp.Or(property(f.YAML, "spring", "config", "activate", "on-profile"), property(f.YAML, "spring", "profiles"))
	names := Text(profiles)
	for _, n := range Items(profiles) {
		names += "," + Text(n)
	}
	if names != "" && !inProduction(names) {
		return
	}
	Walk(property(f.YAML, "logging", "level"), func(above []string, key, value *yaml.Node) {
		if Text(value) != "" {
			f.variable("", strings.Join(append(above[:len(above):len(above)], key.Value), "."), value)
		}
	})
}

// property returns the value at a path of keys, nil if there is none. Keys may be joined by dots in the document.
func property(n *yaml.Node, path ...string) *yaml.Node {
	for k := range path {
		if v := Get(n, strings.Join(path[:k+1], ".")); v != nil {
			if k == len(path)-1 {
				return v
			}
			if v = property(v, path[k+1:]...); v != nil {
				return v
			}
		}
	}
	return nil
}

// profile matches a name with an optional negation in a Spring profile expression, such as "!dev & cloud".
var profile = regexp.MustCompile(`(!?)\s*([\w.+@-]+)`)

// inProduction reports whether a profile expression includes production: it names a production profile, or it only
// excludes other profiles.
func inProduction(expression string) bool {
	if strings.Contains(strings.ReplaceAll(expression, " ", ""), "!(") {
		return false
	}
	others := false // the expression requires another profile, or excludes production
	matches := profile.FindAllStringSubmatch(strings.ToLower(expression), -1)
	for _, m := range matches {
		switch ofProduction := strings.Contains(m[2], "prod") || strings.Contains(m[2], "prd"); {
		case ofProduction && m[1] == "":
			return true
		case ofProduction || m[1] == "":
			others = true
		}
	}
	return len(matches) > 0 && !others
}
