// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// developerTool matches paths of programs for developers of the repository, and of code for its tests.
var developerTool = regexp.MustCompile(`(^|/)(scripts?|tools?|hack|integration|harness|mocks?|simulators?|generators?|load-?gen(erator)?|load-?tests?|seeds?|[a-z]+(test|gen|mock))/`)

// debugging are words in names of functions that lower the level on demand, or for the user of a command.
var debugging = setOf("debug verbose trace test tests dev development local cli")

var logDebugProduction = &Check{
	ID:       "log-debug-production",
	Title:    "Log level of production is DEBUG or TRACE",
	Category: Volume,
	Severity: High,
	Rules:    []string{"LOG-001"},
	Why: "DEBUG and TRACE records are most of what a service can log. In production they cost storage and hide the records that matter, " +
		"and they often hold requests and personal data that INFO records leave out.",
	Fix: "Set the level to INFO, and take it from an environment variable so that it can be lowered for one service and for a short time.",
	Config: func(p *Pass, f *configfile.File) {
		if notProduction.MatchString(f.Path) && !production.MatchString(f.Path) || isExample(f) {
			return
		}
		report := func(service, name, level string, start, end int) {
			severity := High
			if name == "OTEL_LOG_LEVEL" { // only the log of the SDK
				severity = Suggestion
			}
			p.in(f, start, end, Finding{
				Severity: severity,
				Subject:  strings.TrimSpace(service + " " + name),
				Names:    Names{Service: service},
				Message:  fmt.Sprintf("%s is %s.", levelOf(f), strings.ToUpper(level)),
			})
		}
		switch f.Kind {
		case configfile.Logging:
			if notProduction.MatchString(f.Name) {
				return // a file in a ConfigMap
			}
			for _, v := range f.Environment {
				if v.Name == "root" && v.Literal && isDebug(v.Value) {
					report("", v.Name, v.Value, v.Start, v.End)
				}
			}
		case configfile.Collector:
			if level := configfile.Get(f.YAML, "service", "telemetry", "logs", "level"); isDebug(configfile.Text(level)) {
				severity := Suggestion // only the log of the Collector, often in an example
				if f.OnKubernetes || production.MatchString(f.Path) {
					severity = High
				}
				start, end := f.Range(level)
				p.in(f, start, end, Finding{Severity: severity, Subject: "service.telemetry.logs.level", Message: fmt.Sprintf("The log level of the Collector is %s.", strings.ToUpper(level.Value))})
			}
		case configfile.Dockerfile, configfile.Compose, configfile.Kubernetes, configfile.HelmValues, configfile.Env:
			if f.Kind == configfile.Kubernetes {
				namespace := cmp.Or(configfile.Get(f.YAML, "metadata", "namespace"), configfile.Get(f.YAML, "namespace")) // of Kustomize
				if notProduction.MatchString(configfile.Text(namespace)) {
					return
				}
			}
			for _, v := range f.Environment {
				level := v.Value
				if m := levelArgument.FindStringSubmatch(level); m != nil && strings.HasPrefix(v.Name, "JAVA") { // JAVA_TOOL_OPTIONS
					level = m[1]
				} else if !levelVariable.MatchString(v.Name) || !isDebug(level) {
					continue
				}
				if v.Literal && !v.Left && isProduction(f, v.Service) && !notProduction.MatchString(v.Service) {
					report(v.Service, v.Name, level, v.Start, v.End)
				}
			}
			switch f.Kind {
			case configfile.Dockerfile:
				last := max(0, lastIndex(fromInstruction, f.Source)) // the stage of the image
				for _, c := range commandInstruction.FindAllIndex(f.Source[last:], 32) {
					start, end := last+c[0], last+c[1]
					if m := levelInCommand.FindSubmatchIndex(f.Source[start:end]); m != nil {
						report("", "argument", string(f.Source[start+m[2]:start+m[3]]), start+m[2], start+m[3])
					}
				}
			case configfile.Kubernetes:
				levelArguments(f, f.YAML, "", report)
			case configfile.Compose:
				for name, service := range configfile.Pairs(configfile.Get(f.YAML, "services")) {
					if isProduction(f, name.Value) && !notProduction.MatchString(name.Value) {
						levelArguments(f, service, name.Value, report)
					}
				}
			case configfile.HelmValues:
				configfile.Walk(f.YAML, func(above []string, key, value *yaml.Node) {
					name := strings.ToLower(strings.ReplaceAll(key.Value, "_", ""))
					if ofCollector(f, above) {
						return
					}
					if (name == "loglevel" || name == "level" && len(above) > 0 && strings.HasPrefix(strings.ToLower(above[len(above)-1]), "log")) && isDebug(configfile.Text(value)) {
						start, end := f.Range(value)
						report(strings.Join(above, "."), key.Value, value.Value, start, end)
					}
				})
			}
		}
	},
	Source: func(p *Pass, u *instrumentation.Uses) {
		if notProduction.MatchString(u.File.Path) && !production.MatchString(u.File.Path) || developerTool.MatchString(u.File.Path) {
			return
		}
		settings := sync.OnceValue(func() string { return levelSetting(u) })
		for i, l := range u.LogLevels {
			if i == maxLevels {
				break
			}
			if l.Conditional || l.Level != "debug" && l.Level != "trace" || onDemand(l.Node) || developmentLogger(l.Node) && !serves(u) {
				continue
			}
			f := Finding{
				Severity: Suggestion, // one logger of several
				Subject:  l.Level,
				Message:  fmt.Sprintf("The code sets the log level to %s wherever it runs.", strings.ToUpper(l.Level)),
			}
			if setting := settings(); setting != "" {
				f.Message = fmt.Sprintf("The default log level is %s. `%s` can set another level.", strings.ToUpper(l.Level), setting)
			} else if setsLevel(l.Node) || production.MatchString(u.File.Path) {
				f.Severity = High
			}
			p.At(u, l.Node, f)
		}
	},
}

// levelOf names the log level in a deployment file: that of production, or a default that a deployment can override.
func levelOf(f *configfile.File) string {
	switch f.Kind {
	case configfile.Dockerfile:
		return "The default log level of the image"
	case configfile.HelmValues:
		return "The default log level of the chart"
	}
	return "The log level of production"
}

// ofCollector reports whether a setting in Helm values belongs to a Collector: the verbosity of an exporter, which is
// not a log level, or the log level of a Collector, which is reported with the Collector's configuration.
func ofCollector(f *configfile.File, above []string) bool {
	if slices.Contains(above, "exporters") {
		return true
	}
	config, ok := strings.CutSuffix(strings.Join(above, "."), "config.service.telemetry.logs")
	return ok && configfile.IsCollector(configfile.Get(f.YAML, strings.Split(config+"config", ".")...))
}

// levelVariable matches the name of a variable that sets a log level.
var levelVariable = regexp.MustCompile(`(?i)^([A-Z0-9]+_+)*(LOG_?LEVEL|LOGGING_?LEVEL(_ROOT)?|LOG_VERBOSITY|LOGLEVEL__DEFAULT|LOGGING__LOGLEVEL__DEFAULT|RUST_LOG)$`)

// levelArgument matches an argument, or a command line with one, that sets a log level.
var levelArgument = regexp.MustCompile(`(?i)(?:^|\s)(?:--?[a-z-]*log[._-]?level(?:=|\s+)|(?:--|-D)logging\.level\.root=)["']?(debug|trace)["']?(?:\s|$)`)

var (
	fromInstruction = regexp.MustCompile(`(?im)^\s*FROM\s`)
	// commandInstruction matches the command of an image, with its continuation lines.
	commandInstruction = regexp.MustCompile(`(?im)^[ \t]*(?:CMD|ENTRYPOINT)[ \t](?:.*\\\n)*.*$`)
	// levelInCommand matches the level in such a command, also in a JSON array.
	levelInCommand = regexp.MustCompile(`(?i)[\s"](?:--?[a-z-]*log[._-]?level(?:=|"\s*,\s*"|\s+)|(?:--|-D)logging\.level\.root=)["']?(debug|trace)\b`)
)

// lastIndex returns the index of the last match, -1 if there is none.
func lastIndex(re *regexp.Regexp, b []byte) int {
	all := re.FindAllIndex(b, -1)
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1][0]
}

// levelFlag matches the first of two arguments that set a log level.
var levelFlag = regexp.MustCompile(`(?i)^--?[a-z-]*log[._-]?level$`)

func isDebug(level string) bool {
	return slices.Contains([]string{"debug", "trace", "finest", "finer", "all", "silly"}, strings.ToLower(strings.TrimSpace(level)))
}

// setsLevel reports whether a level is set for all loggers of a program, and not for one new logger.
func setsLevel(n *syntax.Node) bool {
	call := n
	if call.Kind != syntax.Call {
		call = n.Enclosing(syntax.Call)
	}
	if call == nil {
		return false
	}
	_, name := call.Method()
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "set") && strings.Contains(name, "level") || name == "basicconfig" || nestLoggers[name]
}

// nestLoggers are functions that set the levels of the logger of NestJS.
var nestLoggers = setOf("create createmicroservice createapplicationcontext uselogger overridelogger")

// levelSetting returns the variable from which a file sets the level of a logger, "" if there is none: the name of an
// environment variable if the function reads one.
func levelSetting(u *instrumentation.Uses) string {
	for n := range u.File.Root.All(syntax.Call, syntax.Assign) {
		level := newLevel(n)
		if level == nil || fixedLevel(u, level) {
			continue
		}
		for c := range cmp.Or(n.Enclosing(syntax.Func), u.File.Root).All(syntax.String, syntax.Member) {
			if c.Text == strings.ToUpper(c.Text) && levelVariable.MatchString(c.Text) {
				return c.Text
			}
		}
		return brief(u, level)
	}
	return ""
}

// newLevel returns the level that a call or assignment sets for an existing logger, nil for other code.
func newLevel(n *syntax.Node) *syntax.Node {
	if n.Kind == syntax.Assign {
		t := n.Targets()[0]
		if of := name(t); t.Kind == syntax.Member && (of == "level" || of == "Level") || t.Kind == syntax.Index && len(t.Children) == 2 && t.Children[1].Text == "level" {
			return n.Value()
		}
		return nil
	}
	recv, m := n.Method()
	if lower := strings.ToLower(m); len(n.Args()) > 0 && (strings.HasPrefix(lower, "set") && strings.HasSuffix(lower, "level") ||
		(m == "Set" || m == "UnmarshalText") && recv != nil && last(words(name(recv))) == "level") {
		return n.Arg(len(n.Args()) - 1)
	}
	return nil
}

// fixedLevel reports whether an expression is the same level wherever the code runs.
func fixedLevel(u *instrumentation.Uses, n *syntax.Node) bool {
	if _, ok := u.Known(n); ok {
		return true
	}
	switch n.Kind {
	case syntax.Number:
		return true
	case syntax.Name, syntax.Member:
		return levelName.MatchString(n.Text)
	case syntax.Call: // Level.toLevel("INFO")
		return len(n.Args()) > 0 && !slices.ContainsFunc(n.Args(), func(a *syntax.Node) bool { return !fixedLevel(u, a) })
	}
	return false
}

// levelName matches the names of constants for levels: slog.LevelInfo, zap.InfoLevel, Level.INFO.
var levelName = regexp.MustCompile(`(?i)^(level)?(trace|debug|info|warn|warning|error|fatal|critical|panic|dpanic|off|disabled|notset|all|fine|finer|finest|severe|config)(level)?$`)

// maxLevels limits the levels of one file that are checked, so that the work stays linear.
const maxLevels = 32

// developmentLogger reports whether a call creates a logger for development, which tools also use to log to their user.
func developmentLogger(n *syntax.Node) bool {
	return n.Kind == syntax.Call && strings.HasPrefix(name(n), "NewDevelopment")
}

// serves reports whether a file starts a server or a consumer, or sets the logger of the whole program.
func serves(u *instrumentation.Uses) bool {
	for _, b := range u.Boundaries {
		if b.Kind != "database client" && b.Kind != "http client" {
			return true
		}
	}
	return u.File.Root.Has(func(n *syntax.Node) bool { return n.Kind == syntax.Call && serving[name(n)] })
}

// serving are functions that start a server, or set the logger of the whole program.
var serving = setOf("ListenAndServe ListenAndServeTLS Serve ServeTLS ReplaceGlobals Listen")

// onDemand reports whether a level is set by a function for debugging, or after a condition on debugging or production
// under which the function returns.
func onDemand(n *syntax.Node) bool {
	for fn := n.Enclosing(syntax.Func); fn != nil; fn = fn.Enclosing(syntax.Func) {
		if debugging.any(words(fn.Text)) {
			return true
		}
		if fn.Body() == nil || fn.Body().Kind != syntax.Block {
			continue
		}
		for _, c := range fn.Body().Children {
			if c.Start >= n.Start {
				break
			}
			if c.Kind != syntax.If || !slices.ContainsFunc(c.Children[1].Children, func(s *syntax.Node) bool { return s.Kind == syntax.Return }) {
				continue
			}
			if c.Children[0].Has(func(x *syntax.Node) bool {
				return (x.Kind == syntax.Name || x.Kind == syntax.Member) && (debugging.any(words(x.Text)) || production.MatchString(x.Text))
			}) {
				return true
			}
		}
	}
	return false
}

// isProduction reports whether a deployment file is for production. Compose and .env files are mostly for development,
// so their path or a variable must name production.
func isProduction(f *configfile.File, service string) bool {
	switch f.Kind {
	case configfile.Compose, configfile.Env:
		return production.MatchString(path.Base(f.Path)) || production.MatchString(path.Dir(f.Path)) || slices.ContainsFunc(f.Environment, func(v configfile.Variable) bool {
			return v.Service == service && (strings.HasSuffix(v.Name, "_ENV") || strings.HasSuffix(v.Name, "_ENVIRONMENT") || v.Name == "ENV" || v.Name == "ENVIRONMENT") && production.MatchString(v.Value)
		})
	}
	return true
}

// levelArguments reports --log-level=debug among the arguments of containers, in one argument or two.
func levelArguments(f *configfile.File, n *yaml.Node, service string, report func(service, name, level string, start, end int)) {
	configfile.Walk(n, func(_ []string, key, value *yaml.Node) {
		if key.Value != "args" && key.Value != "command" {
			return
		}
		before := ""
		items := configfile.Items(value)
		if value.Kind == yaml.ScalarNode {
			items = []*yaml.Node{value}
		}
		for _, n := range items {
			text := configfile.Text(n)
			m := levelArgument.FindStringSubmatch(text)
			if m == nil && levelFlag.MatchString(before) && isDebug(text) {
				m = []string{"", text}
			}
			if m != nil {
				start, end := f.Range(n)
				report(service, "argument", m[1], start, end)
			}
			before = text
		}
	})
}
