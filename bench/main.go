// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// settings are shared by all benches.
type settings struct {
	rounds     int
	recordings string // directory
	assay      string // binary
	collector  string // binary, "" to build it
	profile    string // prefix of CPU profile files, "" for none
	soak       time.Duration
	attacks    *regexp.Regexp // of the fair bench
	log        io.Writer
}

// bench is one named measurement.
type bench struct {
	name  string
	about string
	run   func(ctx context.Context, s *settings, emit func(*table) error) error
}

// benches run in this order.
var benches = []bench{
	{"engine", "the whole analysis on one core beside pdata", runEngine},
	{"ingest", "a running server beside an OpenTelemetry Collector under the same load", runIngest},
	{"hostile", "requests that are expensive to analyze, compared with ordinary telemetry of the same size", runHostile},
	{"fair", "how long one organization's requests take while another attacks the server", runFair},
	{"scale", "commits, scoring and size against the number of services, on both stores", runScale},
	{"replicas", "one, two and four servers on one PostgreSQL under load", runReplicas},
	{"read", "memory and REST answers of a server that keeps 2,000 services", runRead},
	{"pages", "pages of long lists beside SQL", runPages},
	{"dashboard", "every page of the dashboard of a large organization", runDashboard},
	{"soak", "memory, files and goroutines under a steady load; -soak says how long", runSoak},
	{"review", "a review of 10,000 generated files, whole and since a commit", runReview},
	{"reviewed", "REST answers while the agent reviews a hostile repository", runReviewed},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := settings{log: stderr}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.rounds, "rounds", 7, "rounds of the engine bench; the ingest bench does half of them")
	flags.StringVar(&s.recordings, "recordings", "testdata/recordings", "directory of recorded OTLP")
	flags.StringVar(&s.assay, "assay", "bin/assay", "the assay binary")
	flags.StringVar(&s.collector, "collector", "", "a Collector binary (default: build bench/collector)")
	flags.StringVar(&s.profile, "profile", "", "write CPU profiles of the engine bench to files with this prefix")
	flags.DurationVar(&s.soak, "soak", time.Minute, "how long the soak bench runs; the figures in the documents are of 30 minutes")
	attacks := flags.String("attacks", ".", "run the attacks of the fair bench whose name matches this regular expression")
	pattern := flags.String("run", ".", "run the benches whose name matches this regular expression")
	asJSON := flags.Bool("json", false, "print JSON instead of tables")
	list := flags.Bool("list", false, "list the benches and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if s.attacks, err = regexp.Compile(*attacks); err != nil {
		return fmt.Errorf("-attacks: %w", err)
	}
	switch {
	case s.rounds < 1:
		return errors.New("-rounds has to be at least 1")
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if s.assay, err = filepath.Abs(s.assay); err != nil {
		return err
	}
	if !*asJSON && !*list {
		fmt.Fprintln(stdout, machine())
	}
	all := []*table{}
	for _, b := range benches {
		if !match.MatchString(b.name) {
			continue
		}
		if *list {
			fmt.Fprintf(stdout, "%-8s %s\n", b.name, b.about)
			continue
		}
		err := b.run(ctx, &s, func(t *table) error {
			t.Bench = b.name
			all = append(all, t)
			if *asJSON {
				return nil
			}
			return t.print(stdout)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Machine string   `json:"machine"`
			Tables  []*table `json:"tables"`
		}{machine(), all})
	}
	return nil
}

// machine describes the machine of the measurements.
func machine() string {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			cpu = strings.Trim(line, " \t:")
		}
	}
	s := fmt.Sprintf("%d CPUs %s, %s %s/%s", runtime.NumCPU(), cpu, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if strings.HasSuffix(d.Path, "/pdata") {
				s += ", pdata " + d.Version
			}
		}
	}
	return s
}

// profiled runs f and writes its CPU profile on request.
func (s *settings) profiled(name string, f func() error) error {
	if s.profile == "" {
		return f()
	}
	out, err := os.Create(s.profile + name + ".prof")
	if err != nil {
		return err
	}
	defer out.Close()
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}
