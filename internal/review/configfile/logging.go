// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// logging reads the levels of loggers: Environment gets a variable for each, "root" for the root logger.
func (f *File) logging(base string) error {
	if strings.HasSuffix(base, ".xml") {
		return f.loggingXML()
	}
	f.dotenv()
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

// loggingXML reads logback and Log4j 2: root and logger elements with a level attribute or a level element. Profiles of
// Spring that are not for production do not count.
func (f *File) loggingXML() error {
	d := xml.NewDecoder(bytes.NewReader(f.Source))
	d.Strict = false
	logger := ""
	var profiles []bool // of the open elements: whether one excludes production
	for {
		start := int(d.InputOffset())
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
			skip = skip || !strings.Contains(strings.ToLower(attribute(e, "name")), "prod")
		}
		profiles = append(profiles, skip)
		if skip {
			continue
		}
		end := int(d.InputOffset())
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

// springYAML reads logging.level of an application.yaml.
func (f *File) springYAML() {
	level := cmp.Or(Get(f.YAML, "logging", "level"), Get(f.YAML, "logging.level"))
	Walk(level, func(above []string, key, value *yaml.Node) {
		if Text(value) != "" {
			f.variable("", strings.Join(append(above[:len(above):len(above)], key.Value), "."), value)
		}
	})
}
