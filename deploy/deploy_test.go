// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
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

// TestAlerts checks the rules, their tests and the scrape configuration with promtool.
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

// TestKubernetesScrape checks that only the metrics port of a pod is scraped, once, and that the labels are
// those of the alerts. Some builds of promtool do not include Kubernetes service discovery.
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
	for port, want := range map[string]bool{"assay metrics": true, "assay http": false, "assay otlp-grpc": false, "assay otlp-http": false, "assay-collector metrics": false} {
		app, name, _ := strings.Cut(port, " ")
		b := labels.NewBuilder(labels.FromStrings("__address__", "10.0.0.7:9464", "__meta_kubernetes_pod_name", "assay-1",
			"__meta_kubernetes_pod_label_app_kubernetes_io_name", app, "__meta_kubernetes_pod_container_port_name", name))
		require.Equal(t, want, relabel.ProcessBuilder(b, job.Relabel...), port)
		if want {
			require.Equal(t, "assay-1", b.Get("instance"))
		}
	}
}

// TestOneJob checks that the scrape configurations, the alerts and the dashboard use the same job.
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

// metricName matches the selectors of an expression.
var metricName = regexp.MustCompile(`\b(assay|http|go|process|logs|up)(_[a-z0-9_]+)?\{`)

// TestMetricsExist checks that alerts and dashboard use only metrics that the telemetry page lists or that
// the Prometheus client library adds.
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

// TestAlertsAreDocumented checks that the operations page has a paragraph for each alert.
func TestAlertsAreDocumented(t *testing.T) {
	page := string(read(t, "../docs/operations.md"))
	alerts := regexp.MustCompile(`alert: (Assay\w+)`).FindAllStringSubmatch(string(read(t, "prometheus/alerts.yaml")), -1)
	require.NotEmpty(t, alerts)
	for _, a := range alerts {
		require.Contains(t, page, a[1])
	}
}

// TestKubernetesCollector compares copies of files: a kustomization cannot reference files outside its
// directory.
func TestKubernetesCollector(t *testing.T) {
	require.Equal(t, string(read(t, "collector/load-balancing.yaml")), string(read(t, "kubernetes/collector-config.yaml")))
}

// TestImagesAreDigests checks that images are referenced by digest, because tags can move. The operator
// builds assay's own image, and the installation sets its digest.
func TestImagesAreDigests(t *testing.T) {
	found := 0
	for _, pattern := range []string{"kubernetes/*.yaml", "compose/*.yaml", "container/Dockerfile"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			for _, m := range regexp.MustCompile(`(?m)^(?:\s*(?:- )?image: *|FROM )(.+?)(?: AS \w+)?$`).FindAllStringSubmatch(string(read(t, file)), -1) {
				found++
				switch image := strings.Trim(m[1], `"`); image {
				case "assay@sha256:", // a placeholder that a kustomization replaces
					"${ASSAY_IMAGE:?is the digest of the image, see above}":
				default:
					require.Regexp(t, `^[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}$`, image, file)
				}
			}
		}
	}
	require.Equal(t, 9, found)
}

// manifest is the part of a Kubernetes object that the tests read.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Env   []struct{ Name, Value string }
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
				}
				Volumes []struct {
					Secret struct {
						SecretName string `yaml:"secretName"`
						Items      []struct{ Key string }
					}
				}
			}
		}
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		PolicyTypes     []string `yaml:"policyTypes"`
		Ingress, Egress []rule
	}
}

// rule is a rule of a network policy.
type rule struct {
	From, To []any
	Ports    []struct{ Port any }
}

func manifests(t *testing.T) (all []manifest) {
	files, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		documents := yaml.NewDecoder(bytes.NewReader(read(t, file)))
		for {
			var m manifest
			err := documents.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			all = append(all, m)
		}
	}
	return all
}

// TestNetworkPolicies checks that a policy denies all traffic, that each rule that allows traffic names its
// peers and ports, and that a rule allows traffic to each port of a pod.
func TestNetworkPolicies(t *testing.T) {
	open := map[string]bool{}
	denied := false
	for _, m := range manifests(t) {
		if m.Kind != "NetworkPolicy" {
			continue
		}
		selected := m.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"]
		denied = denied || selected == "" && len(m.Spec.Ingress) == 0 && len(m.Spec.Egress) == 0 && slices.Equal(m.Spec.PolicyTypes, []string{"Ingress", "Egress"})
		for _, r := range slices.Concat(m.Spec.Ingress, m.Spec.Egress) {
			require.NotEmpty(t, slices.Concat(r.From, r.To), "%s is open to all", m.Metadata.Name)
			require.NotEmpty(t, r.Ports, "%s opens all ports", m.Metadata.Name)
			for _, peer := range slices.Concat(r.From, r.To) {
				for what, selector := range peer.(map[string]any) {
					require.NotEmpty(t, selector, "%s: an empty %s selects all", m.Metadata.Name, what)
				}
			}
		}
		for _, r := range m.Spec.Ingress {
			for _, p := range r.Ports {
				open[fmt.Sprint(selected, " ", p.Port)] = true
			}
		}
	}
	require.True(t, denied, "no policy denies what others do not allow")
	ports := 0
	for _, m := range manifests(t) {
		for _, c := range m.Spec.Template.Spec.Containers {
			for _, p := range c.Ports {
				ports++
				require.True(t, open[m.Spec.Template.Metadata.Labels["app.kubernetes.io/name"]+" "+p.Name], "no rule allows traffic to the port %s of %s", p.Name, m.Metadata.Name)
			}
		}
	}
	require.Equal(t, 6, ports)
}

// TestTransport checks that telemetry in a cluster is sent to assay with TLS, to the names in the certificate
// of the instructions, and that signing keys are encrypted at rest.
func TestTransport(t *testing.T) {
	names := regexp.MustCompile(`subjectAltName=([^"]+)"`).FindSubmatch(read(t, "kubernetes/kustomization.yaml"))
	require.NotNil(t, names)
	certificate := &x509.Certificate{DNSNames: strings.Split(strings.ReplaceAll(string(names[1]), "DNS:", ""), ",")}
	env, keys := map[string]map[string]string{}, map[string][]string{}
	for _, m := range manifests(t) {
		if m.Kind != "StatefulSet" && m.Kind != "Deployment" {
			continue
		}
		env[m.Metadata.Name] = map[string]string{}
		for _, e := range m.Spec.Template.Spec.Containers[0].Env {
			env[m.Metadata.Name][e.Name] = e.Value
		}
		for _, v := range m.Spec.Template.Spec.Volumes {
			for _, i := range v.Secret.Items {
				keys[m.Metadata.Name] = append(keys[m.Metadata.Name], v.Secret.SecretName+"/"+i.Key)
			}
		}
	}
	require.Equal(t, "/etc/assay/tls/tls.crt", env["assay"]["ASSAY_TLS_CERT"])
	require.Equal(t, "/etc/assay/tls/tls.key", env["assay"]["ASSAY_TLS_KEY"])
	require.Equal(t, "/etc/assay/secret/secret-key", env["assay"]["ASSAY_SECRET_KEY_FILE"])
	require.Equal(t, []string{"assay/store-url", "assay/key", "assay/secret-key", "assay-tls/tls.crt", "assay-tls/tls.key"}, keys["assay"])
	require.Equal(t, []string{"assay-tls/ca.crt"}, keys["assay-collector"], "a Collector has no private key of assay")
	require.Empty(t, env["assay-collector"]["ASSAY_INSECURE"])
	require.Equal(t, "/etc/assay-ca/ca.crt", env["assay-collector"]["ASSAY_CA_FILE"])
	var replicas []string
	require.NoError(t, yaml.Unmarshal([]byte(env["assay-collector"]["ASSAY_REPLICAS"]), &replicas))
	require.Len(t, replicas, 3)
	for _, address := range append(replicas, env["assay-collector"]["ASSAY_HOST"]+":4317", "assay:8080") {
		host, _, _ := strings.Cut(address, ":")
		require.NoError(t, certificate.VerifyHostname(host))
	}

	files, err := filepath.Glob("collector/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		plain := strings.Count(string(read(t, file)), "insecure: true")
		if strings.HasSuffix(file, "durable-buffer.yaml") {
			plain-- // to its own receivers on loopback
		}
		require.Zero(t, plain, file)
	}
	require.Contains(t, string(read(t, "compose/compose.yaml")), "ASSAY_SECRET_KEY_FILE: /run/secrets/assay_secret_key\n")
}

// TestUnit verifies the unit with systemd-analyze, if it is installed.
func TestUnit(t *testing.T) {
	unit := string(read(t, "systemd/assay.service"))
	for _, section := range []string{"[Unit]", "[Service]", "[Install]"} {
		require.Equal(t, 1, strings.Count(unit, "\n"+section+"\n"), section)
	}
	// A user that exists before the unit runs can own its files.
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
	// The binary need not exist at the unit's path on this machine.
	program, err := os.Executable()
	require.NoError(t, err)
	file := t.TempDir() + "/assay.service"
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(unit, "/usr/local/bin/assay", program, 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "Unknown", "settings that systemd does not know")
}

// TestVersionIsSet checks the linker flag that sets the version: the linker ignores an unknown variable, and
// one that is not a string without a value.
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
	for _, name := range []string{"../Makefile", "../scripts/release", "container/Dockerfile"} {
		set := regexp.MustCompile(`-X ([\w./]+)=`).FindAllSubmatch(read(t, name), -1)
		require.NotEmpty(t, set, name)
		for _, s := range set {
			require.True(t, settable[string(s[1])], "%s sets %s, which cmd/assay does not have", name, s[1])
		}
	}
}

// TestImageHoldsNoSecrets checks the build context, because docker build copies it into a layer.
func TestImageHoldsNoSecrets(t *testing.T) {
	ignored := strings.Split(string(read(t, "../.dockerignore")), "\n")
	for _, path := range []string{".git", "bin", "assay-data", "deploy/compose/secrets"} {
		require.Contains(t, ignored, path)
	}
}

// TestIngestKey checks that Collectors use a key that can only send telemetry, and not the bootstrap key,
// which has all scopes.
func TestIngestKey(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"make-secrets", "make-ingest-key"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), read(t, "compose/"+name), 0o700))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o755)) // created before, with another umask
	// A docker command that records its arguments. assay fails once, as before it has a store.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker"), []byte(`#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
[ "$(wc -l <"$(dirname "$0")/asked")" -gt 1 ] || exit 1
echo assay_sk_abcdef_0123
`), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sleep"), []byte("#!/bin/sh\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for range 2 { // the second run creates nothing
		for _, name := range []string{"make-secrets", "make-ingest-key"} {
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name)).CombinedOutput()
			require.NoError(t, err, "%s\n%s", name, out)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "secrets"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "its files are mounted into containers of other users")
	require.Equal(t, "ASSAY_KEY=assay_sk_abcdef_0123\n", string(read(t, filepath.Join(dir, "secrets/collector.env"))))
	require.Regexp(t, `^assay_sk_[0-9a-f]{6}_[0-9a-f]{32}$`, string(read(t, filepath.Join(dir, "secrets/assay_key"))))
	require.Regexp(t, `^[0-9a-f]{64}$`, string(read(t, filepath.Join(dir, "secrets/assay_secret_key"))))
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
