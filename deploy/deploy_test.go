// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestAlerts has promtool check the rules, their tests and the scrape configuration.
func TestAlerts(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "prometheus/alerts.yaml"},
		{"test", "rules", "prometheus/alerts_test.yaml"},
		{"check", "config", "--syntax-only", "prometheus/prometheus.yaml"},
	} {
		out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
		require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
	}
}

// TestKubernetesScrape: of a pod's ports the one with the metrics is scraped, once, under the
// names that the alerts expect. Not every promtool knows the discovery of Kubernetes.
func TestKubernetesScrape(t *testing.T) {
	var file struct {
		ScrapeConfigs []struct {
			JobName   string `yaml:"job_name"`
			Discovery []struct {
				Role       string
				Namespaces struct{ Names []string }
			} `yaml:"kubernetes_sd_configs"`
			Relabel []*relabel.Config `yaml:"relabel_configs"`
		} `yaml:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal(read(t, "prometheus/kubernetes.yaml"), &file))
	require.Len(t, file.ScrapeConfigs, 1)
	job := file.ScrapeConfigs[0]
	require.Equal(t, "assay", job.JobName)
	require.Len(t, job.Discovery, 1)
	require.Equal(t, "pod", job.Discovery[0].Role)
	require.Equal(t, []string{"assay"}, job.Discovery[0].Namespaces.Names)
	for _, r := range job.Relabel {
		require.NoError(t, r.Validate(model.UTF8Validation))
	}
	for port, want := range map[string]bool{"assay http": true, "assay otlp-grpc": false, "assay otlp-http": false, "assay-collector http": false} {
		app, name, _ := strings.Cut(port, " ")
		b := labels.NewBuilder(labels.FromStrings("__address__", "10.0.0.7:8080", "__meta_kubernetes_pod_name", "assay-1",
			"__meta_kubernetes_pod_label_app_kubernetes_io_name", app, "__meta_kubernetes_pod_container_port_name", name))
		require.Equal(t, want, relabel.ProcessBuilder(b, job.Relabel...), port)
		if want {
			require.Equal(t, "assay-1", b.Get("instance"))
		}
	}
}

// TestOneJob: alerts and dashboard are for the job that the scrape configurations have, and
// each selector of the alerts says so.
func TestOneJob(t *testing.T) {
	for _, name := range []string{"prometheus/prometheus.yaml", "prometheus/kubernetes.yaml"} {
		require.Equal(t, 1, strings.Count(string(read(t, name)), "job_name: assay\n"), name)
	}
	for _, line := range strings.Split(string(read(t, "prometheus/alerts.yaml")), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		require.Equal(t, len(metricName.FindAllString(line, -1)), strings.Count(line, `{job="assay"`), line)
	}
	require.NotContains(t, string(read(t, "kubernetes/assay.yaml")), "prometheus.io/", "a second job would scrape the same pods")
}

// metricName finds the selectors of an expression.
var metricName = regexp.MustCompile(`\b(assay|http|go|process|logs|up)(_[a-z0-9_]+)?\{`)

// TestMetricsExist: alerts and dashboard ask for what the page on telemetry lists, or
// for what the client library of Prometheus adds.
func TestMetricsExist(t *testing.T) {
	documented := string(read(t, "../docs/telemetry.md"))
	for file, expressions := range map[string][]string{
		"prometheus/alerts.yaml": {string(read(t, "prometheus/alerts.yaml"))},
		"grafana/assay.json":     expressionsOf(t, read(t, "grafana/assay.json")),
	} {
		found := 0
		for _, e := range expressions {
			for _, match := range metricName.FindAllString(e, -1) {
				found++
				metric := strings.TrimSuffix(match, "{")
				metric = regexp.MustCompile(`_(bucket|count)$`).ReplaceAllString(metric, "")
				if metric == "up" || strings.HasPrefix(metric, "go_") || strings.HasPrefix(metric, "process_") || metric == "assay_build_info" {
					continue
				}
				require.Contains(t, documented, "`"+metric+"`", "%s: %s", file, metric)
			}
		}
		require.Greater(t, found, 15, file)
	}
}

// TestAlertsAreExplained: the page on operations has a paragraph on each.
func TestAlertsAreExplained(t *testing.T) {
	page := string(read(t, "../docs/operations.md"))
	alerts := regexp.MustCompile(`alert: (Assay\w+)`).FindAllStringSubmatch(string(read(t, "prometheus/alerts.yaml")), -1)
	require.NotEmpty(t, alerts)
	for _, a := range alerts {
		require.Contains(t, page, a[1])
	}
}

// TestKubernetesCollector: a kustomization cannot take files from outside of its folder.
func TestKubernetesCollector(t *testing.T) {
	require.Equal(t, string(read(t, "collector/load-balancing.yaml")), string(read(t, "kubernetes/collector-config.yaml")))
}

// TestUnit has systemd check the unit, where it is installed.
func TestUnit(t *testing.T) {
	unit := string(read(t, "systemd/assay.service"))
	for _, section := range []string{"[Unit]", "[Service]", "[Install]"} {
		require.Equal(t, 1, strings.Count(unit, "\n"+section+"\n"), section)
	}
	// A user that is there before the unit runs can own its files.
	require.Contains(t, unit, "\nUser=assay\nGroup=assay\n")
	require.NotContains(t, unit, "DynamicUser")
	code := regexp.MustCompile(`(?m)^\texitUsage\s+= (\d+)$`).FindSubmatch(read(t, "../cmd/assay/main.go"))
	require.NotNil(t, code)
	require.Contains(t, unit, "\nRestartPreventExitStatus="+string(code[1])+"\n")
	require.Contains(t, unit, "\nEnvironment=GOTRACEBACK=crash\n", "a panic ends with 2, too")
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit's settings are not checked")
		return
	}
	// The binary need not be where the unit expects it on this machine.
	program, err := os.Executable()
	require.NoError(t, err)
	file := t.TempDir() + "/assay.service"
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(unit, "/usr/local/bin/assay", program, 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "Unknown", "settings that systemd does not know")
}

// TestVersionIsSet: the linker says nothing when it is to set a variable that is not
// there, or that is no string without a value.
func TestVersionIsSet(t *testing.T) {
	files, err := filepath.Glob("../cmd/assay/*.go")
	require.NoError(t, err)
	settable := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "string" && len(v.Values) == 0 {
					for _, n := range v.Names {
						settable["main."+n.Name] = true
					}
				}
			}
		}
	}
	for _, name := range []string{"../Makefile", "container/Dockerfile"} {
		set := regexp.MustCompile(`-X ([\w./]+)=`).FindAllSubmatch(read(t, name), -1)
		require.NotEmpty(t, set, name)
		for _, s := range set {
			require.True(t, settable[string(s[1])], "%s sets %s, which cmd/assay does not have", name, s[1])
		}
	}
}

// TestImageHoldsNoSecrets: what is in the context of docker build is copied into a layer.
func TestImageHoldsNoSecrets(t *testing.T) {
	ignored := strings.Split(string(read(t, "../.dockerignore")), "\n")
	for _, path := range []string{".git", "bin", "assay-data", "deploy/compose/secrets"} {
		require.Contains(t, ignored, path)
	}
}

// TestIngestKey: Collectors have a key that assay made for sending alone, and not the first
// one, which may do everything.
func TestIngestKey(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"make-secrets", "make-ingest-key"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), read(t, "compose/"+name), 0o700))
	}
	// A docker that tells what it was asked for. assay fails once, as before it has a store.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker"), []byte(`#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
[ "$(wc -l <"$(dirname "$0")/asked")" -gt 1 ] || exit 1
echo assay_sk_abcdef_0123
`), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sleep"), []byte("#!/bin/sh\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for range 2 { // the second time nothing is made
		for _, name := range []string{"make-secrets", "make-ingest-key"} {
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name)).CombinedOutput()
			require.NoError(t, err, "%s\n%s", name, out)
		}
	}
	require.Equal(t, "ASSAY_KEY=assay_sk_abcdef_0123\n", string(read(t, filepath.Join(dir, "secrets/collector.env"))))
	require.Regexp(t, `^assay_sk_[0-9a-f]{6}_[0-9a-f]{32}$`, string(read(t, filepath.Join(dir, "secrets/assay_key"))))
	asked := "compose exec -T assay-1 /assay key create --name collectors --scopes ingest\n"
	require.Equal(t, asked+asked, string(read(t, filepath.Join(dir, "asked"))))

	require.Contains(t, string(read(t, "kubernetes/collector.yaml")), "secretKeyRef: {name: assay-collector, key: key}")
	require.Contains(t, string(read(t, "kubernetes/kustomization.yaml")), "/assay key create --name collectors --scopes ingest")
}

func expressionsOf(t *testing.T, dashboard []byte) []string {
	var doc any
	require.NoError(t, json.Unmarshal(dashboard, &doc))
	var list []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if text, ok := e.(string); ok && k == "expr" {
					list = append(list, text)
				}
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(doc)
	require.NotEmpty(t, list)
	slices.Sort(list)
	return list
}

func read(t *testing.T, name string) []byte {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return b
}
