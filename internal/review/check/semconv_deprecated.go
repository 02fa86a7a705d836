// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"
	"sync"

	"assay/internal/lists"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
)

var semconvDeprecated = &Check{
	ID:       "semconv-deprecated",
	Title:    "Name is deprecated by the semantic conventions",
	Category: Governance,
	Severity: Low,
	Why: "Dashboards, alerts and processors are written for the current names. Services that still send a deprecated name are missing from them, " +
		"and a query over all services has to know both names.",
	Fix: "Rename the attribute or metric to its successor in the [registry](https://opentelemetry.io/docs/specs/semconv/registry/). " +
		"If queries still use the old name, send both for a while or rename it in the Collector.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		seen := map[*syntax.Node]bool{}
		report := func(n *syntax.Node, kind, key, successor string, names Names, fix func() []Edit) {
			at := literal(u, n)
			if seen[at] {
				return
			}
			seen[at] = true
			f := Finding{Subject: key, Names: names}
			switch {
			case successor != "":
				f.Message = fmt.Sprintf("The %s `%s` is deprecated; its successor is `%s`.", kind, key, successor)
				f.Fix = fix()
			case len(replacements[key]) > 0:
				f.Message = fmt.Sprintf("The %s `%s` is deprecated in favor of `%s`.", kind, key, strings.Join(replacements[key], "` or `"))
			default:
				f.Message = fmt.Sprintf("The %s `%s` is deprecated.", kind, key)
			}
			p.mark(u, at, f)
		}
		sent := map[sentKey]bool{}
		for _, a := range u.Attributes {
			sent[sentKey{a.Key.Enclosing(syntax.Func), a.On == instrumentation.OnMetric, a.Name}] = a.Name != ""
		}
		for _, a := range u.Attributes {
			key := a.Name
			if !deprecatedKey(key) || u.SharedKey(a.Key) {
				continue // a shared key is reported where it is defined
			}
			if _, known := u.Known(a.Key); !known && literal(u, a.Key).Kind != syntax.String {
				continue // a constant of an old version of a semconv package
			}
			successor := successorOf(key)
			if slices.ContainsFunc(append(replacements[key], successor), func(s string) bool {
				return sent[sentKey{a.Key.Enclosing(syntax.Func), a.On == instrumentation.OnMetric, s}]
			}) {
				continue // both are sent during a migration
			}
			report(a.Key, "attribute", key, successor, attributeNames(u, a), func() []Edit { return p.renameAttribute(u, a, key, successor) })
		}
		reads := sync.OnceValue(func() map[string]bool { return onlyReads(u) })
		for _, n := range u.Keys {
			if key, ok := u.Known(n); ok && deprecatedKey(key) && !onlyRead(u, n, reads()) {
				successor := successorOf(key)
				report(n, "attribute", key, successor, Names{AttributeKey: key}, func() []Edit {
					if newValues[key] != nil {
						return nil // the values, which change as well, are unknown
					}
					return p.renameTelemetry(u, n, successor, keys)
				})
			}
		}
		created := map[string]bool{}
		for _, i := range u.Instruments {
			metric := i.Metric
			if metric == "" { // a constant of the conventions' package: METRIC_HTTP_SERVER_REQUEST_DURATION
				metric = strings.TrimPrefix(i.Name.Text, "METRIC_")
			}
			created[bareName(metric)] = true
		}
		for _, i := range u.Instruments {
			metric := i.Metric
			if strings.HasPrefix(metric, "gen_ai.") || strings.HasPrefix(metric, "mcp.") { // moved to another registry
				continue
			}
			m, ok := semconv.LookupMetric(metric)
			if !ok && earlier[metric] != "" {
				m.Deprecated, m.Successor = true, earlier[metric]
			}
			if m.Deprecated && !created[bareName(m.Successor)] {
				report(i.Name, "metric", metric, m.Successor, Names{MetricName: metric, ScopeName: i.Scope}, func() []Edit {
					if unitChanges[metric] {
						return nil
					}
					return p.renameTelemetry(u, i.Name, m.Successor, metricNames)
				})
			}
		}
	},
}

// onlyRead reports whether a key is defined as a variable that other packages cannot use and the file uses only to read
// attributes: attributes.get(HTTP_METHOD), attribute.Key == methodKey.
func onlyRead(u *instrumentation.Uses, n *syntax.Node, reads map[string]bool) bool {
	def := n.Parent.Assignment()
	if def == nil || len(def.Targets()) != 1 || def.Targets()[0].Kind != syntax.Name || !reads[def.Targets()[0].Text] {
		return false
	}
	target := def.Targets()[0]
	if u.File.Language == syntax.Go {
		return !token.IsExported(target.Text)
	}
	modifiers := u.File.Source[bytes.LastIndexByte(u.File.Source[:target.Start], '\n')+1 : target.Start]
	return !bytes.Contains(modifiers, []byte("public")) && !bytes.Contains(modifiers, []byte("protected"))
}

// onlyReads returns the variables that a file passes only to functions and operators that read an attribute.
func onlyReads(u *instrumentation.Uses) map[string]bool {
	reads, others := map[string]bool{}, map[string]bool{}
	for n := range u.File.Root.All(syntax.Name) {
		if n.Parent == nil {
			continue
		}
		read := false
		switch p := n.Parent; p.Kind {
		case syntax.Assign:
			if p.Value() != n { // its definition
				continue
			}
		case syntax.Case:
			read = true
		case syntax.Operator:
			read = p.Text == "==" || p.Text == "!="
		case syntax.Call:
			w := words(name(p))
			read = p.Callee() != n && len(w) > 0 && readers[w[0]]
		}
		if read {
			reads[n.Text] = true
		} else {
			others[n.Text] = true
		}
	}
	maps.DeleteFunc(reads, func(variable string, _ bool) bool { return others[variable] })
	return reads
}

// readers are first words in names of functions that read an attribute.
var readers = setOf("get is has contains equals find lookup read value")

// renameAttribute returns the edits that rename an attribute, and that replace its value if the successor has another
// one for it. It returns nil if the value to set is unknown.
func (p *Pass) renameAttribute(u *instrumentation.Uses, a *instrumentation.Attribute, key, successor string) []Edit {
	edits := p.renameTelemetry(u, a.Key, successor, keys)
	values := newValues[key]
	if values == nil || edits == nil {
		return edits
	}
	if _, names := trace(u, a.Key); len(names) > 0 || a.Value == nil {
		return nil // other attributes may use the constant with other values
	}
	old, known := u.Known(a.Value)
	value, changes := values[old]
	switch {
	case !known:
		return nil
	case !changes:
		return edits
	case value == "":
		return nil
	}
	more := rename(u, a.Value, value)
	if more == nil {
		return nil
	}
	return append(edits, more...)
}

// newValues maps values of deprecated attributes to values of their successors, "" for none. Other values stay the
// same.
var newValues = map[string]map[string]string{
	"db.system": {
		"adabas": "softwareag.adabas", "cache": "intersystems.cache", "cosmosdb": "azure.cosmosdb", "db2": "ibm.db2", "dynamodb": "aws.dynamodb",
		"firebird": "firebirdsql", "h2": "h2database", "hanadb": "sap.hana", "informix": "ibm.informix", "ingres": "actian.ingres",
		"intersystems_cache": "intersystems.cache", "maxdb": "sap.maxdb", "mssql": "microsoft.sql_server", "mssqlcompact": "microsoft.sql_server",
		"netezza": "ibm.netezza", "oracle": "oracle.db", "redshift": "aws.redshift", "spanner": "gcp.spanner",
	},
	"messaging.operation": {"deliver": "process", "publish": "send"},
	"net.transport":       {"inproc": "", "ip_tcp": "tcp", "ip_udp": "udp", "other": ""},
	"rpc.system":          {"apache_dubbo": "dubbo", "connect_rpc": "connectrpc"},
}

// keys returns the keys of attributes.
func keys(u *instrumentation.Uses) []*syntax.Node {
	return append(lists.Map(u.Attributes, func(a *instrumentation.Attribute) *syntax.Node { return a.Key }), u.Keys...)
}

// metricNames returns the names of metrics.
func metricNames(u *instrumentation.Uses) []*syntax.Node {
	return lists.Map(u.Instruments, func(i *instrumentation.Instrument) *syntax.Node { return i.Name })
}

// earlier maps names that are no longer in the registry to their successors, according to the schema files and
// migration guides of the conventions.
var earlier = map[string]string{
	"messaging.destination": "messaging.destination.name", "messaging.message_id": "messaging.message.id", "messaging.conversation_id": "messaging.message.conversation_id",
	"messaging.message_payload_size_bytes": "messaging.message.body.size", "messaging.temp_destination": "messaging.destination.temporary",
	"messaging.protocol": "network.protocol.name", "messaging.protocol_version": "network.protocol.version",
	"messaging.rabbitmq.routing_key": "messaging.rabbitmq.destination.routing_key", "messaging.kafka.message_key": "messaging.kafka.message.key",
	"messaging.kafka.partition": "messaging.destination.partition.id", "messaging.kafka.consumer_group": "messaging.consumer.group.name",
	"messaging.kafka.tombstone": "messaging.kafka.message.tombstone", "messaging.consumer_id": "messaging.client.id",
	"http.retry_count": "http.request.resend_count", "db.cassandra.keyspace": "db.namespace", "db.hbase.namespace": "db.namespace",
	"http.server.duration": "http.server.request.duration", "http.client.duration": "http.client.request.duration",
	"http.server.request.size": "http.server.request.body.size", "http.server.response.size": "http.server.response.body.size",
	"http.client.request.size": "http.client.request.body.size", "http.client.response.size": "http.client.response.body.size",
}

// unitChanges are metrics whose successor has another unit: a rename alone is no fix.
var unitChanges = setOf("http.server.duration http.client.duration")

// bareName returns the letters and digits of a name in lower case.
func bareName(s string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "_", "").Replace(s))
}

// successorOf returns the key that replaces a deprecated key, "" for none.
func successorOf(key string) string {
	if s := earlier[key]; s != "" {
		return s
	}
	return semconv.Successor(key)
}

// deprecatedKey reports whether the conventions deprecate a key. Keys without a dot, such as state, do not count,
// because they have other meanings as well.
func deprecatedKey(key string) bool {
	a := semconv.Find([]byte(key))
	return strings.Contains(key, ".") && (a.Deprecated || a.Replaced || earlier[key] != "")
}

// replacements maps deprecated keys without a single successor to the keys that replace them.
var replacements = map[string][]string{
	"code.function": {"code.function.name"}, "code.namespace": {"code.function.name"}, "db.sql.table": {"db.collection.name"},
	"db.redis.database_index": {"db.namespace"}, "gen_ai.system": {"gen_ai.provider.name"}, "http.flavor": {"network.protocol.version"},
	"http.host": {"server.address", "client.address"}, "net.peer.name": {"server.address", "client.address"}, "net.peer.port": {"server.port", "client.port"},
	"net.sock.family": {"network.transport", "network.type"}, "rpc.grpc.status_code": {"rpc.response.status_code"}, "rpc.service": {"rpc.method"},
	"http.request_content_length": {"http.request.body.size"}, "http.response_content_length": {"http.response.body.size"},
	"messaging.kafka.destination.partition": {"messaging.destination.partition.id"},
}

// sentKey is a key that a function sets, on metrics or on other telemetry.
type sentKey struct {
	fn     *syntax.Node
	metric bool
	key    string
}
