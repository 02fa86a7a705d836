// SPDX-License-Identifier: Apache-2.0

package semconv

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRegistry checks the files, which are parsed leniently, and compares the entries with them row by row.
func TestRegistry(t *testing.T) {
	read := func(file string, header ...string) [][]string {
		all, err := csv.NewReader(strings.NewReader(file)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, header, all[0])
		require.Equal(t, all[1:], rows(file))
		return all[1:]
	}
	attributeRows := read(attributesCSV, "attribute", "type", "deprecated", "levels")
	require.Len(t, attributeRows, 940)
	deprecated := make(map[string][]string)
	for _, row := range read(deprecatedCSV, "attribute", "reason", "renamed_to") {
		require.Contains(t, []string{"renamed", "obsoleted", "uncategorized"}, row[1], row[0])
		require.True(t, row[1] != "uncategorized" || row[2] == "", row[0])
		deprecated[row[0]] = row
	}
	require.Len(t, deprecated, 206)
	require.Len(t, attributeRows, len(attributes)+len(templates), "a key is listed twice")

	levels := map[string]Level{"resource": Resource, "span": Span, "log": Log, "metric": Metric}
	for _, row := range attributeRows {
		want := Attribute{
			Key:      row[0],
			Template: strings.HasPrefix(row[1], "template["),
		}
		d, ok := deprecated[row[0]]
		require.Equal(t, map[bool]string{true: "yes", false: "no"}[ok], row[2], "%s: deprecated, and the reason", row[0])
		if ok {
			want.Deprecated, want.Successor = d[1] != "uncategorized", d[2]
			moved := want.Key != "gen_ai.system" && (strings.HasPrefix(want.Key, "gen_ai.") || strings.HasPrefix(want.Key, "mcp.") || strings.HasPrefix(want.Key, "openai."))
			want.Replaced = !want.Deprecated && !moved
		}
		for _, l := range strings.FieldsFunc(row[3], func(r rune) bool { return r == '|' }) {
			require.Contains(t, levels, l, row[0])
			want.Levels |= levels[l]
		}
		table := attributes
		if want.Template {
			table = templates
		}
		got, ok := table[want.Key]
		require.True(t, ok, want.Key)
		require.Equal(t, want, got)
	}
	read(metricsCSV, "metric", "instrument", "unit", "stability", "deprecated", "renamed_to")
}

func TestLookup(t *testing.T) {
	for _, tc := range []struct {
		key  string
		want Attribute
		ok   bool
	}{
		{"service.name", Attribute{Key: "service.name", Levels: Resource}, true},
		{"http.request.method", Attribute{Key: "http.request.method", Levels: Span | Metric}, true},
		{"cloud.resource_id", Attribute{Key: "cloud.resource_id", Levels: Resource | Span | Log}, true},
		{"android.state", Attribute{Key: "android.state", Deprecated: true, Successor: "android.app.state"}, true},
		{"url.template", Attribute{Key: "url.template", Levels: Span | Metric}, true},
		{"artifact.filename", Attribute{Key: "artifact.filename"}, true},
		{"http.request.header", Attribute{}, false},
		{"http.request.header.x", Attribute{}, false},
		{"Service.Name", Attribute{}, false},
		{"service.name ", Attribute{}, false},
		{"service", Attribute{}, false},
		{"", Attribute{}, false},
	} {
		got, ok := Lookup([]byte(tc.key))
		require.Equal(t, tc.ok, ok, tc.key)
		require.Equal(t, tc.want, got, tc.key)
	}
}

func TestLookupTemplate(t *testing.T) {
	for _, tc := range []struct{ key, template, rest string }{
		{"http.request.header.authorization", "http.request.header", "authorization"},
		{"http.request.header.x.y", "http.request.header", "x.y"},
		{"http.request.header..", "http.request.header", "."},
		{"k8s.persistentvolumeclaim.annotation.a", "k8s.persistentvolumeclaim.annotation", "a"},
		{"k8s.pod.label.app.kubernetes.io/name", "k8s.pod.label", "app.kubernetes.io/name"},
		{"k8s.pod.labels.app", "k8s.pod.labels", "app"},
		{"container.label." + strings.Repeat("a.", 1000), "container.label", strings.Repeat("a.", 1000)},
		{"http.request.header.", "", ""},
		{"http.request.header", "", ""},
		{"http.request.headers.x", "", ""},
		{"http.request.headerx", "", ""},
		{"HTTP.request.header.x", "", ""},
		{"x.http.request.header.x", "", ""},
		{"service.name", "", ""},
		{".", "", ""},
		{"..", "", ""},
		{"", "", ""},
	} {
		a, rest, ok := LookupTemplate([]byte(tc.key))
		require.Equal(t, tc.template != "", ok, tc.key)
		require.Equal(t, tc.template, a.Key, tc.key)
		require.Equal(t, ok, a.Template, tc.key)
		require.Equal(t, tc.rest, string(rest), tc.key)
	}
}

func TestMisplaced(t *testing.T) {
	for _, tc := range []struct {
		key                  string
		onResource, onRecord bool
	}{
		{"service.name", false, true},                       // resource
		{"host.name", false, true},                          // resource
		{"k8s.pod.label.app", false, true},                  // template, resource
		{"http.request.method", true, false},                // metric and span
		{"app.crash.id", true, false},                       // log
		{"aspnetcore.authentication.scheme", true, false},   // metric
		{"http.request.header.x-foo", true, false},          // template, span
		{"http.request.header", false, false},               // bare template
		{"http.request.header.", false, false},              // empty rest
		{"error.type", true, false},                         // log, metric and span
		{"service.version", false, false},                   // log and resource
		{"process.pid", false, false},                       // resource and span
		{"cicd.pipeline.name", false, false},                // metric and resource
		{"cloud.resource_id", false, false},                 // log, resource and span
		{"cloud.account.id", false, false},                  // resource, and spans of AWS Lambda
		{"cloud.availability_zone", false, true},            // resource
		{"server.address", false, false},                    // also the resource of scraped metrics
		{"server.port", false, false},                       // also the resource of scraped metrics
		{"url.scheme", false, false},                        // also the resource of scraped metrics
		{"url.path", true, false},                           // span
		{"artifact.filename", false, false},                 // placed nowhere
		{"process.environment_variable.PATH", false, false}, // template, placed nowhere
		{"gen_ai.agent.name", true, false},                  // deprecated, span
		{"db.client.connections.pool.name", true, false},    // deprecated, metric
		{"android.state", false, false},                     // deprecated, placed nowhere
		{"container.labels.app", false, false},              // deprecated template, placed nowhere
		{"shop.order.items", false, false},                  // not in the registry
		{"", false, false},
	} {
		require.Equal(t, tc.onResource, Find([]byte(tc.key)).MisplacedOnResource(), "on a resource: %s", tc.key)
		require.Equal(t, tc.onRecord, Find([]byte(tc.key)).MisplacedOnRecord(), "on a record: %s", tc.key)
	}
}

func TestDeprecated(t *testing.T) {
	for _, tc := range []struct {
		key        string
		deprecated bool
		successor  string
	}{
		{"http.method", true, "http.request.method"},          // renamed
		{"android.state", true, "android.app.state"},          // renamed
		{"container.labels.app", true, "container.label.app"}, // template, renamed
		{"http.target", true, ""},                             // obsoleted
		{"gen_ai.prompt", true, ""},                           // obsoleted, though under gen_ai
		{"gen_ai.request.model", false, ""},                   // moved to another registry
		{"mcp.session.id", false, ""},                         // moved to another registry
		{"http.flavor", false, ""},                            // replaced by two attributes
		{"code.function", false, ""},                          // merged into another attribute
		{"container.labels", false, ""},                       // bare template
		{"container.label.app", false, ""},                    // template, current
		{"http.request.method", false, ""},                    // current
		{"shop.order.items", false, ""},                       // not in the registry
		{"", false, ""},
	} {
		require.Equal(t, tc.deprecated, Find([]byte(tc.key)).Deprecated, tc.key)
		require.Equal(t, tc.successor, Successor(tc.key), tc.key)
	}
}

// TestWholeTable checks what must hold for every entry of the registry.
func TestWholeTable(t *testing.T) {
	check := func(a Attribute, key []byte) {
		placed := a.Levels != 0
		onResource, onRecord := Find(key).MisplacedOnResource(), Find(key).MisplacedOnRecord()
		require.False(t, onResource && onRecord, "%s fails everywhere", key)
		if !placed {
			require.False(t, onResource || onRecord, "%s is placed nowhere", key)
		}
		if a.Levels&Resource != 0 {
			require.False(t, onResource, "%s belongs on a resource", key)
		}
		if a.Levels&(Span|Log) != 0 {
			require.False(t, onRecord, "%s belongs on a span or log record", key)
		}
		if placed && a.Levels&Resource == 0 {
			require.True(t, onResource, "%s does not belong on a resource", key)
		}
		require.Equal(t, a.Deprecated, Find(key).Deprecated, "%s", key)
	}
	for key, a := range attributes {
		require.False(t, a.Template, key)
		check(a, []byte(key))
		_, _, ok := LookupTemplate([]byte(key))
		require.False(t, ok, "%s is both an attribute and made from a template", key)
	}
	for prefix, a := range templates {
		require.True(t, a.Template, prefix)
		check(a, []byte(prefix+".rest"))
		_, ok := Lookup([]byte(prefix))
		require.False(t, ok, "%s is both an attribute and a template", prefix)
		require.False(t, Find([]byte(prefix)).Deprecated, prefix)
	}
}

func TestNoAllocations(t *testing.T) {
	keys := [][]byte{[]byte("service.name"), []byte("http.request.header.x-foo"), []byte("shop.order.items"), []byte(strings.Repeat("a.", 500))}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, key := range keys {
			_ = Find(key).MisplacedOnResource()
		}
	}))
}

func BenchmarkFind(b *testing.B) {
	for _, key := range []string{"service.name", "http.request.header.x-foo", "shop.order.items"} {
		b.Run(key, func(b *testing.B) {
			k := []byte(key)
			b.ReportAllocs()
			for b.Loop() {
				Find(k).MisplacedOnResource()
			}
		})
	}
}
