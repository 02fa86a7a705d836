// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// kinds maps kinds to the API types of the manifests.
var kinds = map[string]func() any{
	"v1/Namespace":                       func() any { return new(corev1.Namespace) },
	"v1/Service":                         func() any { return new(corev1.Service) },
	"v1/ServiceAccount":                  func() any { return new(corev1.ServiceAccount) },
	"apps/v1/Deployment":                 func() any { return new(appsv1.Deployment) },
	"apps/v1/StatefulSet":                func() any { return new(appsv1.StatefulSet) },
	"policy/v1/PodDisruptionBudget":      func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1/NetworkPolicy": func() any { return new(networkingv1.NetworkPolicy) },
}

// decode decodes the manifests in a text strictly into the API types of Kubernetes: an unknown, repeated or
// mistyped field is an error.
func decode(t *testing.T, name string, text []byte) (objects []any) {
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	for {
		document := make([]byte, len(text)+1)
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		document = document[:n]
		var kind struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal(document, &kind))
		if kind.Kind == "" {
			continue // only comments
		}
		make, ok := kinds[kind.APIVersion+"/"+kind.Kind]
		require.True(t, ok, "%s: %s/%s", name, kind.APIVersion, kind.Kind)
		object := make()
		require.NoError(t, yaml.UnmarshalStrict(document, object), "%s: %s", name, kind.Kind)
		objects = append(objects, object)
	}
}

// TestManifests decodes every manifest.
func TestManifests(t *testing.T) {
	var kustomization struct {
		Resources          []string `json:"resources"`
		ConfigMapGenerator []struct {
			Name  string   `json:"name"`
			Files []string `json:"files"`
		} `json:"configMapGenerator"`
	}
	text, err := os.ReadFile("../kubernetes/kustomization.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &kustomization))
	require.NotEmpty(t, kustomization.Resources)
	for _, g := range kustomization.ConfigMapGenerator {
		for _, f := range g.Files {
			_, name, _ := strings.Cut(f, "=")
			require.FileExists(t, filepath.Join("../kubernetes", name))
		}
	}
	found := 0
	for _, name := range kustomization.Resources {
		text, err := os.ReadFile(filepath.Join("../kubernetes", name))
		require.NoError(t, err)
		found += len(decode(t, name, text))
	}
	require.Equal(t, 13, found)
	require.Error(t, yaml.UnmarshalStrict([]byte("kind: Service\nspec: {portz: []}"), new(corev1.Service)))
}

// helm runs the program that make check-deploy builds on the chart.
func helm(t *testing.T, command string, values ...string) (output []byte, err error) {
	args := []string{command}
	if command == "template" {
		args = append(args, "release")
	}
	args = append(args, "../helm/assay")
	for _, v := range append([]string{`image.digest="sha256:` + strings.Repeat("0", 64) + `"`}, values...) {
		args = append(args, "--set-json", v)
	}
	cmd := exec.CommandContext(t.Context(), "../../bin/tools/helm", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err = cmd.Output()
	require.NotErrorIs(t, err, os.ErrNotExist, "run make check-deploy")
	if err != nil {
		err = fmt.Errorf("%w: %s%s", err, stderr.Bytes(), output)
	}
	return output, err
}

// render returns the objects of the chart by kind.
func render(t *testing.T, values ...string) map[string][]any {
	_, err := helm(t, "lint", values...)
	require.NoError(t, err)
	text, err := helm(t, "template", values...)
	require.NoError(t, err)
	objects := map[string][]any{}
	for _, o := range decode(t, "chart", text) {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
		objects[kind] = append(objects[kind], o)
	}
	return objects
}

// TestChart renders the chart for both stores and compares its pods with those of the manifests.
func TestChart(t *testing.T) {
	text, err := os.ReadFile("../kubernetes/assay.yaml")
	require.NoError(t, err)
	want := decode(t, "assay.yaml", text)[0].(*appsv1.StatefulSet).Spec
	sqlite := render(t)
	postgresql := render(t, `store="postgresql"`, `env={"ASSAY_PUBLIC_URL": "https://example.com/\"}, {name: x\n"}`)
	for name, objects := range map[string]map[string][]any{"sqlite": sqlite, "postgresql": postgresql} {
		spec := objects["StatefulSet"][0].(*appsv1.StatefulSet).Spec
		pod, wantPod := spec.Template.Spec, want.Template.Spec
		container, wantContainer := pod.Containers[0], wantPod.Containers[0]
		wantPod.SecurityContext.FSGroupChangePolicy = pod.SecurityContext.FSGroupChangePolicy
		require.Equal(t, wantPod.SecurityContext, pod.SecurityContext, name)
		require.Equal(t, wantPod.AutomountServiceAccountToken, pod.AutomountServiceAccountToken)
		require.Equal(t, wantPod.TerminationGracePeriodSeconds, pod.TerminationGracePeriodSeconds)
		require.Equal(t, wantContainer.SecurityContext, container.SecurityContext, name)
		require.Equal(t, wantContainer.StartupProbe, container.StartupProbe)
		require.Equal(t, wantContainer.LivenessProbe, container.LivenessProbe)
		require.Equal(t, wantContainer.ReadinessProbe, container.ReadinessProbe)
		require.Equal(t, wantContainer.Lifecycle, container.Lifecycle)
		require.Equal(t, wantContainer.Ports, container.Ports)
		require.Equal(t, wantContainer.Resources, container.Resources)
		require.Equal(t, "assay@sha256:"+strings.Repeat("0", 64), container.Image)
		require.Equal(t, spec.Selector.MatchLabels, objects["Service"][0].(*corev1.Service).Spec.Selector)
		require.Equal(t, spec.ServiceName, objects["Service"][1].(*corev1.Service).Name)
		require.Equal(t, pod.ServiceAccountName, objects["ServiceAccount"][0].(*corev1.ServiceAccount).Name)
		for _, v := range wantContainer.Env {
			if name == "sqlite" && (v.Name == "ASSAY_STORE_FILE" || v.Name == "ASSAY_REPLICA_NAME") {
				require.NotContains(t, container.Env, v)
			} else if v.Name != "ASSAY_METRICS_STORE" && !strings.HasPrefix(v.Name, "ASSAY_PUBLIC_") {
				require.Contains(t, container.Env, v, name)
			}
		}

		policy := objects["NetworkPolicy"][0].(*networkingv1.NetworkPolicy).Spec
		require.Equal(t, spec.Selector.MatchLabels, policy.PodSelector.MatchLabels)
		require.Len(t, policy.PolicyTypes, 2)
		require.Len(t, policy.Ingress, 3)
		for _, r := range policy.Ingress {
			require.NotEmpty(t, r.From)
			require.NotEmpty(t, r.Ports)
		}
	}

	spec := sqlite["StatefulSet"][0].(*appsv1.StatefulSet).Spec
	require.EqualValues(t, 1, *spec.Replicas)
	require.Equal(t, "data", spec.VolumeClaimTemplates[0].Name)
	require.Empty(t, sqlite["PodDisruptionBudget"])
	require.Len(t, sqlite["NetworkPolicy"][0].(*networkingv1.NetworkPolicy).Spec.Egress, 1, "only DNS")
	spec = postgresql["StatefulSet"][0].(*appsv1.StatefulSet).Spec
	require.EqualValues(t, 3, *spec.Replicas)
	require.Empty(t, spec.VolumeClaimTemplates)
	require.Equal(t, want.Template.Spec.Volumes[1:], spec.Template.Spec.Volumes[2:], "secrets")
	require.Len(t, postgresql["PodDisruptionBudget"], 1)
	require.Len(t, postgresql["NetworkPolicy"][0].(*networkingv1.NetworkPolicy).Spec.Egress, 2)
	require.Contains(t, spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "ASSAY_PUBLIC_URL", Value: "https://example.com/\"}, {name: x\n"})

	// An empty list of peers denies all traffic. It must not become a rule that allows all.
	denied := render(t, `networkPolicy={"rest": [], "otlp": [], "metrics": [], "postgresql": []}`, `store="postgresql"`)
	policy := denied["NetworkPolicy"][0].(*networkingv1.NetworkPolicy).Spec
	require.Empty(t, policy.Ingress)
	require.Len(t, policy.Egress, 1)
	require.Empty(t, render(t, `networkPolicy={"enabled": false}`)["NetworkPolicy"])

	for _, value := range []string{`image.digest=""`, `image.digest="latest"`, `image={"tag": "latest"}`, `store="mysql"`, `secret=""`, `replica=3`, `env={"A": 1}`} {
		_, err := helm(t, "template", value)
		require.ErrorContains(t, err, "schema", value)
	}
}
