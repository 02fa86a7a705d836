// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"assay/internal/review"
)

const (
	reviewFiles   = 10_000
	reviewLines   = 150 // of each file
	reviewRounds  = 3
	reviewChanged = 200 // lines
)

// reviewLanguage has the parts of a source file. %[1]d is the number of the file, %[2]d that of the function.
type reviewLanguage struct {
	ext, header  string
	traced, bare string // functions; one in four is traced
	footer       string
}

var reviewLanguages = []reviewLanguage{
	{
		ext: "go", header: "package shop%[1]d\n\nimport (\n\t\"context\"\n\t\"log/slog\"\n\n\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/attribute\"\n)\n\nvar tracer = otel.Tracer(\"shop/%[1]d\")\n",
		traced: "\nfunc order%[2]d(ctx context.Context, id string) error {\n\tctx, span := tracer.Start(ctx, \"order\")\n\tdefer span.End()\n\tspan.SetAttributes(attribute.String(\"shop.order\", id))\n" +
			"\tif err := store%[2]d(ctx, id); err != nil {\n\t\tspan.RecordError(err)\n\t\tslog.ErrorContext(ctx, \"failed\", \"err\", err)\n\t\treturn err\n\t}\n\treturn nil\n}\n",
		bare: "\nfunc store%[2]d(ctx context.Context, id string) error {\n\ttotal := 0\n\tfor i, c := range id {\n\t\tswitch {\n\t\tcase c == 'x' && i > %[2]d:\n\t\t\ttotal += i\n\t\tdefault:\n\t\t\ttotal -= len(id)\n\t\t}\n\t}\n\treturn check(ctx, total)\n}\n",
	},
	{
		ext: "ts", header: "import { trace } from '@opentelemetry/api';\nimport { logger } from './logger';\n\nconst tracer = trace.getTracer('shop/%[1]d');\n",
		traced: "\nexport async function order%[2]d(id: string): Promise<number> {\n  return tracer.startActiveSpan('order', async (span) => {\n    try {\n      span.setAttribute('shop.order', id);\n      return await store%[2]d(id);\n    } catch (err) {\n      span.recordException(err);\n      logger.error('failed', { err });\n      throw err;\n    } finally {\n      span.end();\n    }\n  });\n}\n",
		bare:   "\nasync function store%[2]d(id: string): Promise<number> {\n  let total = 0;\n  for (const [i, c] of [...id].entries()) {\n    if (c === 'x' && i > %[2]d) {\n      total += i;\n    } else {\n      total -= id.length;\n    }\n  }\n  return total;\n}\n",
	},
	{
		ext: "py", header: "import logging\n\nfrom opentelemetry import trace\n\nlogger = logging.getLogger(__name__)\ntracer = trace.get_tracer(\"shop.%[1]d\")\n",
		traced: "\n\ndef order_%[2]d(order_id):\n    with tracer.start_as_current_span(\"order\") as span:\n        span.set_attribute(\"shop.order\", order_id)\n        try:\n            return store_%[2]d(order_id)\n        except ValueError as err:\n            span.record_exception(err)\n            logger.error(\"failed: %%s\", err)\n            raise\n",
		bare:   "\n\ndef store_%[2]d(order_id):\n    total = 0\n    for i, c in enumerate(order_id):\n        if c == 'x' and i > %[2]d:\n            total += i\n        else:\n            total -= len(order_id)\n    return {'total': total, 'items': [n for n in range(total) if n %% 2]}\n",
	},
	{
		ext: "java", header: "package shop;\n\nimport io.opentelemetry.api.GlobalOpenTelemetry;\nimport io.opentelemetry.api.trace.Span;\nimport io.opentelemetry.api.trace.Tracer;\nimport org.slf4j.Logger;\nimport org.slf4j.LoggerFactory;\n\nclass Shop%[1]d {\n  private static final Logger log = LoggerFactory.getLogger(Shop%[1]d.class);\n  private final Tracer tracer = GlobalOpenTelemetry.getTracer(\"shop\");\n",
		traced: "\n  int order%[2]d(String id) {\n    Span span = tracer.spanBuilder(\"order\").startSpan();\n    try {\n      span.setAttribute(\"shop.order\", id);\n      return store%[2]d(id);\n    } catch (RuntimeException err) {\n      span.recordException(err);\n      log.error(\"failed\", err);\n      throw err;\n    } finally {\n      span.end();\n    }\n  }\n",
		bare:   "\n  int store%[2]d(String id) {\n    int total = 0;\n    for (int i = 0; i < id.length(); i++) {\n      if (id.charAt(i) == 'x' && i > %[2]d) {\n        total += i;\n      } else {\n        total -= id.length();\n      }\n    }\n    return total;\n  }\n",
		footer: "}\n",
	},
}

// source returns file n of the corpus.
func (l *reviewLanguage) source(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, l.header, n)
	for i := 0; strings.Count(b.String(), "\n") < reviewLines; i++ {
		part := l.bare
		if i%4 == 0 {
			part = l.traced
		}
		fmt.Fprintf(&b, strings.ReplaceAll(part, "%[1]d", fmt.Sprint(n)), n, i)
	}
	return b.String() + l.footer
}

// runReview reviews a generated corpus, whole and since a commit.
func runReview(ctx context.Context, s *settings, emit func(*table) error) error {
	dir, err := os.MkdirTemp("", "assay-review")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lines := 0
	for n := range reviewFiles {
		l := &reviewLanguages[n%len(reviewLanguages)]
		name := filepath.Join(dir, fmt.Sprintf("pkg%d", n/100), fmt.Sprintf("Shop%d.%s", n, l.ext))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		text := l.source(n)
		lines += strings.Count(text, "\n")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "-qm", "corpus"}} {
		if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	for n := range reviewChanged / 10 {
		name := filepath.Join(dir, fmt.Sprintf("pkg%d", n), fmt.Sprintf("Shop%d.%s", n*100+n%4, reviewLanguages[n%4].ext))
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		changed := bytes.Replace(text, []byte("\"order\""), []byte("\"place order\""), 1)
		for i := range 9 {
			changed = bytes.Replace(changed, fmt.Appendf(nil, "i > %d", i+1), fmt.Appendf(nil, "i > 1%d", i+1), 1)
		}
		if err := os.WriteFile(name, changed, 0o600); err != nil {
			return err
		}
	}
	t := &table{Title: fmt.Sprintf("%s files, %s lines of Go, TypeScript, Python and Java", thousands(reviewFiles), thousands(int64(lines))), Columns: []string{"seconds", "files/s", "peak MiB", "parsed", "findings"}}
	whole, err := s.reviewed(ctx, t, "whole", dir)
	if err != nil {
		return err
	}
	since, err := s.reviewed(ctx, t, fmt.Sprintf("--since, %d changed lines", reviewChanged), dir, "--since", "HEAD")
	if err != nil {
		return err
	}
	t.Targets = []target{
		atMost("seconds of the whole corpus", 60, whole.seconds), atMost("its peak memory, MiB", 1024, whole.memory), atMost("seconds of the changed lines", 2, since.seconds),
	}
	return emit(t)
}

type reviewResult struct{ seconds, memory float64 }

// reviewed adds the row of a review: the median time and the largest memory of its rounds.
func (s *settings) reviewed(ctx context.Context, t *table, name, dir string, args ...string) (r reviewResult, err error) {
	var seconds []float64
	var report review.Report
	for range reviewRounds {
		cmd := exec.CommandContext(ctx, s.assay, append([]string{"review", "--format", "json", dir}, args...)...)
		cmd.Stderr = s.log
		begin := time.Now()
		out, err := cmd.Output()
		if err != nil {
			return r, err
		}
		seconds = append(seconds, time.Since(begin).Seconds())
		r.memory = max(r.memory, peakMemory(cmd.ProcessState))
		if err := json.Unmarshal(out, &report); err != nil {
			return r, err
		}
		if report.Files.Read != reviewFiles || len(report.Errors) > 0 {
			return r, fmt.Errorf("the review is not complete: %d findings, %d files, errors: %v", len(report.Findings), report.Files.Read, report.Errors)
		}
	}
	r.seconds = median(seconds)
	t.Rows = append(t.Rows, row{name, []value{value(r.seconds), value(reviewFiles / r.seconds), value(r.memory), value(report.Files.Parsed), value(len(report.Findings))}})
	return r, nil
}

// peakMemory returns the largest resident memory of a process that has ended, in MiB.
func peakMemory(p *os.ProcessState) float64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return float64(u.Maxrss) / 1024 // KiB on Linux
	}
	return 0
}
