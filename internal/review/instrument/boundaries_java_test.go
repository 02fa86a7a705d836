// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/review/instrument"
	"assay/internal/review/patch"
	"assay/internal/review/treesitter"
)

// javaPatched returns a copy of a directory of testdata with the patch for it.
func javaPatched(t *testing.T, parser *treesitter.Parser, name string) (dir, report string) {
	dir = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	p, root, err := makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	var got strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&got, "%s %s:%d %s\n", map[bool]string{false: "did ", true: "left"}[s.Open], s.File, s.Line, s.Text)
	}
	got.WriteString("\n")
	require.NoError(t, p.Diff(&got))
	require.NoError(t, p.Apply(root))
	return dir, got.String()
}

// TestJavaBoundaries compares the patches for projects in Java, and makes them a second time, which changes nothing.
func TestJavaBoundaries(t *testing.T) {
	parser := newParser(t)
	for _, name := range []string{"java-sdk", "java-agent"} {
		t.Run(name, func(t *testing.T) {
			dir, got := javaPatched(t, parser, name)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
			again, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// javaRecord is a span or a measurement as the declarations of OpenTelemetry in testdata record it.
type javaRecord struct {
	Name, Kind, Scope, Trace, ID, Parent string
	Metric, Unit, Span                   string
	Bounds                               []float64
	Attributes                           map[string]any
	Failed, Valid                        bool
	Exception                            string
}

// String returns the record as a line, with the name of the parent instead of its id.
func (r javaRecord) String() string {
	keys := []string{}
	for k, v := range r.Attributes {
		if k == "server.port" {
			v = "PORT"
		}
		keys = append(keys, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(keys)
	if r.Metric != "" {
		return fmt.Sprintf("metric %s %s %s of %q %v %v %v", r.Metric, r.Unit, r.Scope, r.Span, r.Bounds, keys, r.Valid)
	}
	return fmt.Sprintf("span %s %q %s in %q %v %v %q", r.Kind, r.Name, r.Scope, r.Parent, keys, r.Failed, r.Exception)
}

// javaCompile compiles a directory, and returns the classes and those that it needs.
func javaCompile(t *testing.T, dir, libraries string) (classes string) {
	classes = t.TempDir()
	args := []string{"-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-d", classes, "-cp", libraries, "-proc:none", "-nowarn"}
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".java") {
			args = append(args, path)
		}
		return err
	}))
	out, err := exec.CommandContext(t.Context(), "javac", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return classes + string(os.PathListSeparator) + libraries
}

// javaLibraries compiles the declarations of libraries, of which those of OpenTelemetry record spans and measurements.
func javaLibraries(t *testing.T) string { return javaCompile(t, "testdata/javastubs", "") }

// javaRun returns the output of a program and what it records.
func javaRun(t *testing.T, dir, libraries, main string) (output string, records []string) {
	command := exec.CommandContext(t.Context(), "java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", javaCompile(t, dir, libraries), main)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	require.NoError(t, command.Run(), "%s", &stderr)
	names := map[string]string{"2222222222222222": "remote"}
	var all []javaRecord
	for line := range strings.Lines(stderr.String()) {
		text, ok := strings.CutPrefix(line, "recorded ")
		require.True(t, ok, line)
		var r javaRecord
		require.NoError(t, json.Unmarshal([]byte(text), &r), text)
		if r.ID != "" {
			names[r.ID] = r.Kind + " " + r.Name
		}
		if r.Kind == "CLIENT" && r.Attributes["error.type"] == "java.io.IOException" {
			r.Exception = "" // a text of the JDK
		}
		all = append(all, r)
	}
	for _, r := range all {
		r.Parent = names[r.Parent]
		records = append(records, r.String())
	}
	slices.SortFunc(records, cmp.Compare)
	return stdout.String(), records
}

// TestJavaProgram runs a program before and after the patch: it prints the same, and records the spans and measurements
// of the golden file.
func TestJavaProgram(t *testing.T) {
	const main = "com.example.shop.Main"
	dir, _ := javaPatched(t, newParser(t), "java-sdk")
	libraries := javaLibraries(t)
	before, nothing := javaRun(t, filepath.Join("testdata", "java-sdk"), libraries, main)
	require.Empty(t, nothing)
	after, records := javaRun(t, dir, libraries, main)
	require.Equal(t, before, after)
	got := strings.Join(records, "\n") + "\n"
	golden := filepath.Join("testdata", "java-sdk.telemetry.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

const (
	javaAgentPOM   = "<project>\n<artifactId>shop</artifactId>\n<dependencies>\n<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId></dependency>\n</dependencies>\n</project>\n"
	javaSDKPOM     = "<project>\n<artifactId>shop</artifactId>\n<dependencies>\n<dependency><groupId>io.opentelemetry</groupId><artifactId>opentelemetry-sdk</artifactId><version>1.60.0</version></dependency>\n</dependencies>\n</project>\n"
	javaStarterPOM = "<project>\n<artifactId>shop</artifactId>\n<dependencies>\n<dependency><groupId>io.opentelemetry.instrumentation</groupId><artifactId>opentelemetry-spring-boot-starter</artifactId></dependency>\n</dependencies>\n</project>\n"
	javaSetup      = "package shop;\n\nclass Setup {\n    void start() {\n        io.opentelemetry.sdk.OpenTelemetrySdk.builder().buildAndRegisterGlobal();\n    }\n}\n"
	javaQuery      = "package shop;\n\nimport java.sql.*;\n\nclass Store {\n    ResultSet load(Statement statement) throws SQLException {\n        return statement.executeQuery(\"SELECT * FROM orders\");\n    }\n}\n"
)

// TestJavaCases are cases beside those of the programs. What is changed compiles, and a second patch is empty.
func TestJavaCases(t *testing.T) {
	parser := newParser(t)
	temporary := t.TempDir()
	var dirs []string // that compile
	for i, c := range []struct {
		name    string
		files   map[string]string
		changed string   // text of the files after the patch, "" if nothing is changed
		steps   []string // texts of open steps
	}{
		{
			name:  "the agent instruments JDBC",
			files: map[string]string{"pom.xml": javaAgentPOM, "src/Store.java": javaQuery},
		},
		{
			name:    "an SDK does not",
			files:   map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Store.java": javaQuery},
			changed: `return Telemetry.database("other_sql", "SELECT", "orders", () -> statement.executeQuery("SELECT * FROM orders"));`,
		},
		{
			name:  "carriage returns",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Store.java": javaQuery + "// a\r\n// b\r// c\n"},
			steps: []string{"The file is left: it has carriage returns without a line feed"},
		},
		{
			name: "places for imports in comments",
			files: map[string]string{
				"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Store.java": javaQuery,
				"src/x/A.java": "/*\npackage shop.x;\n*/\npackage shop.x;\n\nclass A {\n    java.sql.ResultSet a(java.sql.Statement statement) throws java.sql.SQLException {\n        return statement.executeQuery(\"SELECT 1\");\n    }\n}\n",
				"src/x/B.java": "package shop.x;\n\n/*\nimport */ import shop.x.B;\n\nclass B {\n    java.sql.ResultSet a(java.sql.Statement statement) throws java.sql.SQLException {\n        return statement.executeQuery(\"SELECT 1\");\n    }\n}\n",
			},
			changed: "return Telemetry.database(",
			steps: []string{
				"No spans are added to the file: its imports leave no place for the class `Telemetry`",
				"No spans are added to the file: its imports leave no place for the class `Telemetry`",
			},
		},
		{
			name:    "an SDK of an earlier version",
			files:   map[string]string{"pom.xml": strings.Replace(javaSDKPOM, "1.60.0", "1.40.0", 1), "src/Setup.java": javaSetup, "src/Store.java": javaQuery},
			changed: `GlobalOpenTelemetry.get()`,
			steps:   []string{"Register the SDK before the program handles or calls anything: with versions of the API before 1.57, the first span otherwise makes `GlobalOpenTelemetry.set` fail"},
		},
		{
			name:  "an SDK that is too old",
			files: map[string]string{"pom.xml": strings.Replace(javaSDKPOM, "1.60.0", "1.20.0", 1), "src/Setup.java": javaSetup, "src/Store.java": javaQuery},
			steps: []string{"No spans are added to the code: they need version 1.32 of the OpenTelemetry API or a newer one, and the manifest has 1.20"},
		},
		{
			name:  "an SDK that is not the global one",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Store.java": javaQuery},
			steps: []string{"No spans are added to the code: register the SDK of `io.opentelemetry:opentelemetry-sdk` as the global one first, with `buildAndRegisterGlobal`"},
		},
		{
			name:  "an SDK that is not the global one, and a program without boundaries",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Store.java": "package shop;\n\nimport io.opentelemetry.api.trace.Tracer;\n\nclass Store {\n    Tracer tracer;\n}\n"},
		},
		{
			name: "an exporter",
			files: map[string]string{
				"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup,
				"src/Export.java": "package shop;\n\nimport io.opentelemetry.sdk.metrics.export.MetricReader;\nimport java.util.concurrent.*;\n\nclass Export implements MetricReader {\n    void start(ScheduledExecutorService scheduler) {\n        scheduler.scheduleAtFixedRate(this::export, 1, 1, TimeUnit.SECONDS);\n    }\n}\n",
			},
		},
		{
			name:  "a tracer of a vendor",
			files: map[string]string{"pom.xml": strings.Replace(javaSDKPOM, "</dependencies>", "<dependency><groupId>com.datadoghq</groupId><artifactId>dd-trace-api</artifactId></dependency>\n</dependencies>", 1), "src/Setup.java": javaSetup, "src/Store.java": javaQuery},
			steps: []string{"No spans are added to the code: `com.datadoghq:dd-trace-api` traces the program"},
		},
		{
			name: "the starter of Spring",
			files: map[string]string{"pom.xml": javaStarterPOM, "src/Store.java": javaQuery, "src/Listen.java": `package shop;

import java.util.TimerTask;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.kafka.annotation.KafkaListener;

class Listen extends TimerTask {
    @RabbitListener(queues = "mails")
    void mail(String message) {
        System.out.println(message);
    }

    @RabbitListener(queues = "${queue}")
    private void other(String message) {
        System.out.println(message);
    }

    @KafkaListener(topics = "orders")
    void order(String message) {
        System.out.println(message);
    }

    @Override
    public void run() {
        System.out.println("run");
    }
}
`},
			changed: "    @WithSpan(value = \"process mails\", kind = SpanKind.CONSUMER)\n    @RabbitListener(queues = \"mails\")\n",
			steps: []string{
				"Add a span to the messages of RabbitMQ: `@WithSpan` has no effect on private and static methods",
				"Add a span to the runs of the job: the starter of Spring does not know the library, and `@WithSpan` is for methods of beans",
			},
		},
		{
			name:  "another setup of telemetry",
			files: map[string]string{"pom.xml": strings.Replace(javaStarterPOM, "io.opentelemetry.instrumentation</groupId><artifactId>opentelemetry-spring-boot-starter", "io.quarkus</groupId><artifactId>quarkus-opentelemetry", 1), "src/Store.java": javaQuery},
			steps: []string{"No spans are added to the code: use `@WithSpan` for jobs and consumers that `io.quarkus:quarkus-opentelemetry` does not know"},
		},
		{
			name: "library instrumentation",
			files: map[string]string{
				"pom.xml":        strings.Replace(javaSDKPOM, "</dependencies>", "<dependency><groupId>io.opentelemetry.instrumentation</groupId><artifactId>opentelemetry-jdbc</artifactId></dependency>\n</dependencies>", 1),
				"src/Setup.java": javaSetup, "src/Store.java": javaQuery,
			},
		},
		{
			name:  "an SDK beside the agent",
			files: map[string]string{"pom.xml": javaSDKPOM, "Dockerfile": "FROM eclipse-temurin:21-jre\nCMD [\"java\", \"-javaagent:/opentelemetry-javaagent.jar\", \"-jar\", \"/app.jar\"]\n", "src/Setup.java": javaSetup, "src/Store.java": javaQuery},
		},
		{
			name:  "other libraries",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Call.java": "package shop;\n\nimport okhttp3.OkHttpClient;\nimport org.springframework.web.bind.annotation.GetMapping;\n\nclass Call {\n    OkHttpClient client = new OkHttpClient();\n}\n"},
			steps: []string{
				"Nothing instruments the requests of OkHttp: use `io.opentelemetry.instrumentation:opentelemetry-okhttp-3.0`, or the Java agent",
				"Nothing instruments the requests of Spring controllers: use `io.opentelemetry.instrumentation:opentelemetry-spring-boot-starter`, or the Java agent",
			},
		},
		{
			name: "code with spans, and a job without",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Jobs.java": `package shop;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Scope;
import java.sql.*;
import java.util.TimerTask;
import java.util.concurrent.*;

class Jobs {
    static class Traced extends TimerTask {
        @Override
        public void run() {
            Span span = GlobalOpenTelemetry.get().getTracer("jobs").spanBuilder("traced").startSpan();
            span.end();
        }
    }

    static class Plain extends TimerTask {
        @Override
        public void run() {
            System.out.println("plain");
        }
    }

    int count(Statement statement) throws SQLException {
        Span span = GlobalOpenTelemetry.get().getTracer("jobs").spanBuilder("count").startSpan();
        try {
            return statement.executeUpdate("DELETE FROM jobs");
        } finally {
            span.end();
        }
    }

    void start(ScheduledExecutorService scheduler) {
        scheduler.scheduleAtFixedRate(this::sweep, 1, 1, TimeUnit.SECONDS);
        scheduler.scheduleAtFixedRate(new Traced(), 1, 1, TimeUnit.SECONDS);
        scheduler.scheduleAtFixedRate(Jobs::expire, 1, 1, TimeUnit.SECONDS);
    }

    void sweep() {
        Span span = GlobalOpenTelemetry.get().getTracer("jobs").spanBuilder("sweep").startSpan();
        span.end();
    }

    static void expire() {}
}
`},
			changed: `Telemetry.job("shop.Jobs.expire", Jobs::expire), 1,`,
		},
		{
			name: "names that are taken, in the default package",
			files: map[string]string{"pom.xml": javaSDKPOM, "Setup.java": strings.TrimPrefix(javaSetup, "package shop;\n"), "Telemetry.java": "class Telemetry {}\n", "Job.java": `import java.util.TimerTask;

class Job extends TimerTask {
	String telemetry = "a";

	@Override public void run() { System.out.println(telemetry); }
}
`},
			changed: "ServiceTelemetry operation = ServiceTelemetry.job(\"Job.run\");\n\t\ttry {\n\t\t\tSystem.out.println(telemetry);\n",
		},
		{
			name: "a loop in a job, with line ends of Windows",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Job.java": strings.ReplaceAll(`package shop;

import java.util.List;
import java.util.TimerTask;
import org.apache.kafka.clients.consumer.*;

class Job extends TimerTask {
    private List<ConsumerRecord<String, String>> records;

    @Override
    public void run() { // every minute
        for (ConsumerRecord<String, String> record : records) {
            // the value
            if (record.value() == null) break;

            System.out.println(record.value());
        }
    }
}
`, "\n", "\r\n")},
			changed: "                Telemetry operation = Telemetry.process(record);\r\n                try {\r\n                    // the value\r\n",
		},
		{
			name: "a call in a callback, and lines without indentation",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Both.java": `package shop;

import com.rabbitmq.client.*;
import java.sql.*;
import java.util.TimerTask;

class Both extends TimerTask {
    Statement statement;
    Channel channel;
    redis.clients.jedis.Jedis jedis;

    interface Count {
        int of(Statement statement) throws SQLException;
    }

    @Override
    public void run() {
try {
statement.execute("DELETE FROM orders");
channel.basicConsume("mails", true, (tag, message) -> jedis.get("mails"), tag -> {});
} catch (SQLException e) {
    throw new IllegalStateException(e);
}
    }

    void count(Statement statement) {
        Count count = s -> s.executeUpdate("UPDATE orders SET state = 1");
        Count other = (Statement s) -> s.executeUpdate("UPDATE orders SET state = 1");
    }

    class Job extends TimerTask {
        Statement statement;

        public void run()
        {
            Count count = (Statement s) -> { return s.executeUpdate("UPDATE orders SET state = 1"); };
        }
    }
}
`},
			changed: "            Telemetry.database(\"redis\", \"GET\", null, () -> jedis.get(\"mails\"));\n        } catch (Throwable failure) {\n",
		},
		{
			name: "variables that get several values",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Old.java": `package shop;

import java.sql.*;
import java.util.concurrent.*;

class Old {
    void load(Connection connection, ScheduledExecutorService scheduler) throws SQLException {
        PreparedStatement statement = null;
        try {
            statement = connection.prepareStatement("SELECT name FROM users u JOIN orders o ON o.id = u.id");
            ResultSet rows = statement.executeQuery();
            int changed = statement.executeUpdate();
            statement.execute();
            long wide = statement.executeUpdate();
        } finally {
            statement.close();
        }
        scheduler.scheduleAtFixedRate(new Runnable() {
            @Override
            public void run() {}
        }, 1, 1, TimeUnit.SECONDS);
    }

    int other(PreparedStatement statement) throws SQLException {
        statement = statement.getConnection().prepareStatement("UPDATE users SET a = 1");
        return statement.executeUpdate();
    }
}
`},
			changed: "            ResultSet rows = Telemetry.database(\"other_sql\", \"SELECT\", null, statement::executeQuery);\n" +
				"            int changed = Telemetry.database(\"other_sql\", \"SELECT\", null, statement::executeUpdate);\n" +
				"            Telemetry.database(\"other_sql\", \"SELECT\", null, statement::execute);\n            long wide = statement.executeUpdate();\n",
			steps: []string{"Add a span to the call of `executeUpdate`: `statement` gets several values, and a lambda cannot read it"},
		},
		{
			name: "fields with the names of variables",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Fields.java": `package shop;

import java.sql.*;

class Fields {
    PreparedStatement s;
    int k;

    boolean field(String q) throws SQLException {
        boolean done = s.execute(q + k);
        k++;
        s = null;
        return done;
    }

    void pattern(Object o) throws SQLException {
        if (o instanceof PreparedStatement s && s.execute()) {
            s = null;
        }
    }

    void guard(Object o) throws SQLException {
        if (!(o instanceof PreparedStatement s)) {
            return;
        }
        s.executeUpdate();
        s.executeUpdate("DELETE FROM orders");
        s = null;
    }

    void constant(Object o) throws SQLException {
        if (o instanceof PreparedStatement s && s.execute()) {
            this.s = null;
        }
    }

    record Pair(Object k, PreparedStatement s) {
        boolean of(Object o) throws SQLException {
            return o instanceof PreparedStatement s && s.execute() | (s = null) == null;
        }
    }
}
`},
			changed: "        boolean done = Telemetry.database(\"other_sql\", null, null, () -> s.execute(q + k));\n",
			steps: []string{
				"Add a span to the call of `execute`: `s` gets several values, and a lambda cannot read it",
				"Add a span to the call of `executeUpdate`: `s` gets several values, and a lambda cannot read it",
				"Add a span to the call of `execute`: `s` gets several values, and a lambda cannot read it",
			},
		},
		{
			name: "fields with the names of variables of patterns in a switch and of records",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Patterns.java": `package shop;

import java.sql.*;

class Patterns {
    PreparedStatement s;
    int k;

    boolean component(Object o) throws SQLException {
        return o instanceof Pair(Pair(var a, var b), PreparedStatement s) && s.execute() && (s = null) == null;
    }

    void guard(Object o) throws SQLException {
        switch (o) {
            case PreparedStatement s when s.execute() -> s = null;
            default -> {}
        }
    }

    void cases(Object o) throws SQLException {
        switch (o) {
            case Pair(Pair(int k, var b), var c):
                s.execute("DELETE FROM orders LIMIT " + k);
                k = 2;
                break;
            default:
        }
    }

    record Pair(Object a, Object b) {}
}
`},
			steps: []string{
				"Add a span to the call of `execute`: `s` gets several values, and a lambda cannot read it",
				"Add a span to the call of `execute`: `s` gets several values, and a lambda cannot read it",
				"Add a span to the call of `execute`: `k` gets several values, and a lambda cannot read it",
			},
		},
		{
			name: "casts",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Casts.java": `package shop;

import java.sql.*;

class Casts {
    void casts(PreparedStatement s) throws SQLException {
        char one = (char) (s.executeUpdate());
        short two = (short) /* rows */ s.executeUpdate();
        byte three = (byte) ( // rows
            (s.executeUpdate()));
        long four = (s.executeUpdate());
        if ((s.executeUpdate()) > 0 && (four > 0) == (s.execute())) {
            return;
        }
    }
}
`},
			changed: "        long four = (Telemetry.database(\"other_sql\", null, null, () -> s.executeUpdate()));\n" +
				"        if ((Telemetry.database(\"other_sql\", null, null, () -> s.executeUpdate())) > 0 && (four > 0) == (s.execute())) {\n",
			steps: []string{
				"Add a span to the call of `executeUpdate`: the compiler may take its result for another type",
				"Add a span to the call of `executeUpdate`: the compiler may take its result for another type",
				"Add a span to the call of `executeUpdate`: the compiler may take its result for another type",
				"Add a span to the call of `execute`: the compiler may take its result for another type",
			},
		},
		{
			name: "what cannot be changed",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Left.java": `package shop;

import java.net.http.*;
import java.sql.*;

class Left {
    Left(Statement statement) throws SQLException {
        statement.execute("DELETE FROM orders");
    }

    String sql() throws java.io.IOException {
        return "DELETE FROM orders";
    }

    void delete(Statement statement, Statement other) throws Exception {
        statement.execute(sql());
        check(1, statement.executeUpdate("DELETE FROM orders"));
        boolean same = statement.executeUpdate("DELETE FROM orders") == other.executeUpdate("DELETE FROM orders");
        short count = (short) statement.executeUpdate("DELETE FROM orders");
        var many = statement.executeUpdate("DELETE FROM orders");
    }

    void check(long a, long b) {}

    void check(Object a, Object b) {
    }

    Object send(HttpClient client, HttpRequest request) throws Exception {
        return client
                .send(request, HttpResponse.BodyHandlers.ofString());
    }
}
`},
			steps: []string{
				"Add a span to the call of `execute`: it is in a constructor or initializer",
				"Add a span to the call of `execute`: `sql` may throw another exception",
				"Add a span to the call of `executeUpdate`: the compiler may take its result for another type",
				"Add a span to the call of `executeUpdate`: the compiler may take its result for another type",
				"Add a span to the call of `executeUpdate`: the compiler may take its result for another type",
				"Add a span to the call of `executeUpdate`: the compiler may take its result for another type",
				"Add a span to the request: the call is on several lines",
			},
		},
		{
			name: "a statement that begins with an empty string",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Store.java": strings.NewReplacer(
				"(Statement statement)", "(Statement statement, String sql)", `"SELECT * FROM orders"`, `"" + sql`).Replace(javaQuery)},
			changed: `return Telemetry.database("other_sql", null, null, () -> statement.executeQuery("" + sql));`,
		},
		{
			name:  "calls outside of methods",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Static.java": "package shop;\n\nimport java.sql.*;\n\nclass Static {\n    static PreparedStatement statement;\n    static ResultSet rows;\n    static {\n        rows = statement.executeQuery();\n    }\n    ResultSet field = statement.executeQuery();\n}\n"},
			steps: []string{
				"Add a span to the call of `executeQuery`: it is in a constructor or initializer",
				"Add a span to the call of `executeQuery`: it is in a constructor or initializer",
			},
		},
		{
			name: "arguments that throw two exceptions",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/Setup.java": javaSetup, "src/Cache.java": `package shop;

import java.io.IOException;
import redis.clients.jedis.Jedis;

class Cache {
    interface Key {
        String get() throws IOException, InterruptedException;
    }

    String two(Jedis jedis, Key key) throws IOException, InterruptedException {
        return jedis.get(key.get());
    }

    String caught(Jedis jedis, Key key) throws IOException {
        try {
            return jedis.get(key.get());
        } catch (InterruptedException e) {
            return null;
        }
    }

    String all(Jedis jedis, Key key) throws Exception {
        return jedis.get(key.get());
    }

    String one(Jedis jedis) throws IOException {
        return jedis.get(name());
    }

    String name() throws IOException {
        return "name";
    }
}
`},
			changed: "    String all(Jedis jedis, Key key) throws Exception {\n        return Telemetry.database(\"redis\", \"GET\", null, () -> jedis.get(key.get()));\n    }\n\n" +
				"    String one(Jedis jedis) throws IOException {\n        return Telemetry.database(\"redis\", \"GET\", null, () -> jedis.get(name()));\n",
			steps: []string{
				"Add a span to the call of `get`: `get` may throw another exception",
				"Add a span to the call of `get`: `get` may throw another exception",
			},
		},
		{
			name:  "a module",
			files: map[string]string{"pom.xml": javaSDKPOM, "src/module-info.java": "module shop {\n}\n", "src/Setup.java": javaSetup, "src/Store.java": javaQuery},
			steps: []string{"No spans are added to the code: its module has to require `io.opentelemetry.api` and `io.opentelemetry.context` first"},
		},
		{
			name: "Gradle, with the versions of Spring Boot",
			files: map[string]string{
				"build.gradle": "plugins {\n    id 'org.springframework.boot' version '3.5.1'\n}\n\ndependencies {\n    implementation 'org.springframework.boot:spring-boot-starter-web'\n}\n",
				"src/Job.java": "package shop;\n\nclass Job extends java.util.TimerTask {\n    public void run() {\n        System.out.println();\n    }\n}\n",
			},
			changed: "    implementation 'io.opentelemetry:opentelemetry-api'\n    implementation 'org.springframework.boot:spring-boot-starter-web'\n",
		},
		{
			name: "Spring Boot with an old version of the API",
			files: map[string]string{
				"build.gradle.kts": "plugins {\n    id(\"org.springframework.boot\") version \"3.1.0\"\n}\n\ndependencies {\n    implementation(\"org.springframework.boot:spring-boot-starter-web\")\n}\n",
				"src/Job.java":     "package shop;\n\nclass Job extends java.util.TimerTask {\n    public void run() {\n        System.out.println();\n    }\n}\n",
			},
			steps: []string{"No spans are added to the code: they need version 1.32 of the OpenTelemetry API or a newer one, and Spring Boot 3.1 sets an older one"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(temporary, strconv.Itoa(i))
			for name, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			var steps []string
			for _, s := range p.Steps {
				if s.Open && !strings.HasPrefix(s.Text, "Nothing is added to the program") && !strings.HasPrefix(s.Text, "Start the program") {
					steps = append(steps, s.Text)
				}
			}
			require.ElementsMatch(t, c.steps, steps)
			if c.changed == "" {
				require.Empty(t, p.Files)
				return
			}
			require.NoError(t, p.Apply(root))
			var after strings.Builder
			for _, f := range p.Files {
				after.Write(f.After)
			}
			require.Contains(t, after.String(), c.changed)
			dirs = append(dirs, dir)
			again, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
	compile := append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", javaLibraries(t), "testdata/java/Compile.java"}, dirs...)
	out, err := exec.CommandContext(t.Context(), "java", compile...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestJavaHelperGrows: a later patch adds methods to the helper class of an earlier one, unless it was changed.
func TestJavaHelperGrows(t *testing.T) {
	libraries := javaLibraries(t)
	for name, change := range map[string]string{"as it was added": "", "changed": "// ours\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			write("pom.xml", javaSDKPOM)
			write("Setup.java", javaSetup)
			write("Job.java", "package shop;\n\nclass Job extends java.util.TimerTask {\n    public void run() {\n        System.out.println();\n    }\n}\n")
			parser := newParser(t)
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.NoError(t, p.Apply(root))
			helper, err := os.ReadFile(filepath.Join(dir, "Telemetry.java"))
			require.NoError(t, err)
			require.NotContains(t, string(helper), "db.system.name")
			write("Telemetry.java", string(helper)+change)
			write("Store.java", javaQuery)
			p, root, err = makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			if change != "" {
				require.Empty(t, p.Files)
				require.Contains(t, fmt.Sprint(p.Steps), "Add a span to the call of `executeQuery`: the class `Telemetry` was changed, and has no method for it")
				return
			}
			require.Len(t, p.Files, 2)
			require.NoError(t, p.Apply(root))
			javaCompile(t, dir, libraries)
		})
	}
}

// FuzzJava changes hostile code in Java without a panic. What parsed before parses afterwards, and a second patch is
// empty.
func FuzzJava(f *testing.F) {
	for _, name := range []string{"java-sdk/src/main/java/com/example/shop/Main.java", "java-sdk/src/main/java/com/example/shop/messages/Messages.java", "java-sdk/src/main/java/com/example/shop/orders/Store.java", "java-agent/src/main/java/com/example/meters/Listen.java"} {
		text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
		require.NoError(f, err)
		f.Add(text)
	}
	parser := newParser(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 64<<10 {
			return
		}
		dir := t.TempDir()
		for name, text := range map[string][]byte{"pom.xml": []byte(javaSDKPOM), "Setup.java": []byte(javaSetup), "Fuzzed.java": text} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		p, root, err := makePatch(t, parser, dir, instrument.General)
		if err != nil {
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
			return
		}
		for _, f := range p.Files {
			require.True(t, patch.Parses(t.Context(), parser, f.Path, f.After), f.Path)
		}
		require.NoError(t, p.Apply(root))
		again, _, err := makePatch(t, parser, dir, instrument.General)
		require.NoError(t, err)
		require.Empty(t, again.Files)
	})
}

// TestJavaBounds: a file gets spans in a limited number of places. The others are named by one step.
func TestJavaBounds(t *testing.T) {
	dir := t.TempDir()
	calls := strings.Repeat("        statement.execute(\"DELETE FROM orders\");\n", 150)
	for name, text := range map[string]string{"pom.xml": javaSDKPOM, "Setup.java": javaSetup, "Store.java": "package shop;\n\nimport java.sql.*;\n\nclass Store {\n    void clear(Statement statement) throws SQLException {\n" + calls + "    }\n}\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	p, _, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	var open []string
	added := 0
	for _, s := range p.Steps {
		switch {
		case s.Open && s.File == "Store.java":
			open = append(open, s.Text)
		case strings.HasPrefix(s.Text, "Add a span and `db.client.operation.duration`"):
			added++
		}
	}
	require.Equal(t, 100, added)
	require.Equal(t, []string{"More than 100 places in the file or 500 in the service need spans: those from here on are left"}, open)
}
