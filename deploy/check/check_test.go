// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/loadbalancingexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kafkareceiver"
	digest "github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/otelcol"
)

// environment sets the variables of the configurations.
func environment(t *testing.T) {
	for name, value := range map[string]string{
		"ASSAY_HOST": "assay", "ASSAY_REPLICAS": "[assay-0:4317, assay-1:4317]", "ASSAY_KEY": "key",
		"ASSAY_REPLICA_0": "assay-0:4317", "ASSAY_REPLICA_1": "assay-1:4317", "ASSAY_REPLICA_2": "assay-2:4317",
		"QUEUE_DIR": t.TempDir(), "KAFKA_BROKERS": "kafka-0:9092,kafka-1:9092",
	} {
		t.Setenv(name, value)
	}
}

// TestCollectors validates every configuration with the Collector of this module.
func TestCollectors(t *testing.T) {
	environment(t)
	files, err := filepath.Glob("../collector/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		require.NoError(t, command(t, "validate", "--config", file), file)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	text, err := os.ReadFile("../collector/load-balancing.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(broken, bytes.Replace(text, []byte("routing_key"), []byte("routing_kee"), 1), 0o600))
	require.ErrorContains(t, command(t, "validate", "--config", broken), "routing_kee")
}

// TestKafka checks the decoded settings that a Collector accepts without validation.
func TestKafka(t *testing.T) {
	environment(t)
	brokers := []string{"kafka-0:9092", "kafka-1:9092"}
	in, ok := configuration(t, "../collector/kafka-in.yaml").Exporters[component.MustNewID("kafka")].(*kafkaexporter.Config)
	require.True(t, ok)
	require.Equal(t, brokers, in.ClientConfig.Brokers)
	require.False(t, in.QueueBatchConfig.HasValue(), "what is acknowledged would be in memory")

	config := configuration(t, "../collector/kafka-out.yaml")
	out, ok := config.Receivers[component.MustNewID("kafka")].(*kafkareceiver.Config)
	require.True(t, ok)
	require.Equal(t, brokers, out.ClientConfig.Brokers)
	require.Equal(t, kafkareceiver.MessageMarking{After: true, OnError: false, OnPermanentError: true}, out.MessageMarking)
	balancer, ok := config.Exporters[component.MustNewID("load_balancing")].(*loadbalancingexporter.Config)
	require.True(t, ok)
	require.False(t, balancer.Protocol.OTLP.QueueConfig.HasValue(), "a message would be marked before assay has it")
	require.Greater(t, balancer.TimeoutSettings.Timeout, 24*time.Hour, "it bounds the retries of each replica")
	require.Equal(t, []string{"assay-0:4317", "assay-1:4317"}, balancer.Resolver.Static.Get().Hostnames)
}

// configuration returns a decoded configuration file.
func configuration(t *testing.T, file string) *otelcol.Config {
	s := settings().ConfigProviderSettings
	s.ResolverSettings.URIs = []string{"file:" + file}
	provider, err := otelcol.NewConfigProvider(s)
	require.NoError(t, err)
	f, err := factories()
	require.NoError(t, err)
	config, err := provider.Get(t.Context(), f)
	require.NoError(t, err)
	return config
}

func command(t *testing.T, args ...string) error {
	c := newCommand()
	c.SetArgs(args)
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	c.SilenceUsage = true
	return c.ExecuteContext(t.Context())
}

// TestCompose loads the project according to the Compose specification.
func TestCompose(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"compose", "collector", "prometheus", "grafana"} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("..", folder))))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "compose", "secrets"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "compose", "secrets", "collector.env"), []byte("ASSAY_KEY=key\n"), 0o600))
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose", "compose.yaml")}, cli.WithResolvedPaths(true), cli.WithEnv([]string{"ASSAY_IMAGE=sha256:" + strings.Repeat("0", 64)}))
	require.NoError(t, err)
	project, err := options.LoadProject(context.Background())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"postgres", "assay-1", "assay-2", "assay-3", "collector", "prometheus", "grafana"}, project.ServiceNames())
	for _, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type == "bind" {
				require.FileExists(t, v.Source, s.Name)
			}
		}
	}
}

// TestDockerfile runs the checks of docker build --check on the Dockerfile. They need neither an engine nor a
// registry.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../container/Dockerfile")
	require.NoError(t, err)
	lint := func(text []byte) []string {
		sources := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", text)
		sources.Definition = new(llb.Definition)
		results, err := dockerfile2llb.DockerfileLint(t.Context(), text, dockerfile2llb.ConvertOpt{
			SourceMap:      sources,
			TargetPlatform: &ocispecs.Platform{OS: "linux", Architecture: "amd64"},
			MetaResolver:   noImages{},
		})
		require.NoError(t, err)
		require.Nil(t, results.Error)
		var found []string
		for _, w := range results.Warnings {
			found = append(found, w.RuleName+": "+w.Detail)
		}
		return found
	}
	require.Empty(t, lint(text))
	require.NotEmpty(t, lint(append(text, "ENV API_TOKEN secret\nMAINTAINER x\n"...)))
}

// noImages resolves every image to an empty configuration.
type noImages struct{}

func (noImages) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	return ref, digest.FromString(ref), []byte(`{"architecture":"amd64","os":"linux","config":{}}`), nil
}
