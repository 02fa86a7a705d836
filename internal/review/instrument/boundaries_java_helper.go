// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// javaSection is a part of the helper class. "%EE%" is javax or jakarta.
type javaSection struct {
	imports []string
	needs   []string // other sections
	text    string
}

// javaHelper returns the source of the helper class with sections. The scope is the package, or the name of the service.
func javaHelper(pkg, class, service string, sections map[string]bool, ee string, global javaGlobal) string {
	imports := map[string]bool{}
	var texts []string
	closure := javaClosure(sections)
	for _, name := range javaOrder {
		if !closure[name] {
			continue
		}
		for _, i := range javaSections[name].imports {
			imports[strings.ReplaceAll(i, "%EE%", ee)] = true
		}
		texts = append(texts, javaSections[name].text)
	}
	var head strings.Builder
	scope := service
	if pkg != "" {
		scope = pkg
		head.WriteString("package " + pkg + ";\n\n")
	}
	groups := [2][]string{}
	for _, i := range slices.Sorted(maps.Keys(imports)) {
		group := 0
		if strings.HasPrefix(i, "java.") {
			group = 1
		}
		groups[group] = append(groups[group], "import "+i+";\n")
	}
	head.WriteString(strings.Join(groups[0], "") + "\n" + strings.Join(groups[1], "") + "\n")
	return strings.NewReplacer("%CLASS%", class, "%SCOPE%", strconv.Quote(scope), "%GET%", global.get, "%SET%", global.set).Replace(head.String()+javaCore+strings.Join(texts, "")) + "}\n"
}

// javaClosure returns sections with those that they need.
func javaClosure(sections map[string]bool) map[string]bool {
	all := map[string]bool{"": true}
	var add func(name string)
	add = func(name string) {
		if !all[name] {
			all[name] = true
			for _, n := range javaSections[name].needs {
				add(n)
			}
		}
	}
	for name := range sections {
		add(name)
	}
	return all
}

// javaGlobal says how the helper gets OpenTelemetry.
type javaGlobal struct {
	get string // method of GlobalOpenTelemetry
	set string // a further condition to record a duration
}

var (
	// javaAgentGlobal is for the Java agent, which sets it before the program starts.
	javaAgentGlobal = javaGlobal{get: "get"}
	// javaSDKGlobal does not fix the global instance while the program has not set it. It needs version 1.57 of the API.
	javaSDKGlobal = javaGlobal{get: "getOrNoop", set: " && GlobalOpenTelemetry.isSet()"}
)

// javaHelperMark is in the documentation of every helper class.
const javaHelperMark = "An operation with a span, and with a duration where the conventions of OpenTelemetry have a metric for it."

const javaCore = `/**
 * ` + javaHelperMark + `
 *
 * <p>The span is the current one of the thread that starts the operation, until {@link #close}.
 */
public final class %CLASS% implements AutoCloseable {
    private static final String SCOPE = %SCOPE%;
    private static final AttributeKey<String> ERROR_TYPE = AttributeKey.stringKey("error.type");
    private static final Map<String, DoubleHistogram> DURATIONS = new ConcurrentHashMap<>();

    private final long start = System.nanoTime();
    private final String metric;
    private final AttributesBuilder attributes;
    private final Span span;
    private final Scope scope;
    private boolean failed;

    /** The attributes are those of the span and of the metric, which may be null. */
    private %CLASS%(SpanKind kind, String name, Context parent, String metric, Attributes attributes) {
        this.metric = metric;
        this.attributes = attributes.toBuilder();
        span =
                GlobalOpenTelemetry.%GET%()
                        .getTracer(SCOPE)
                        .spanBuilder(name)
                        .setSpanKind(kind)
                        .setParent(parent)
                        .setAllAttributes(attributes)
                        .startSpan();
        scope = parent.with(span).makeCurrent();
    }

    /** Records the error that ends the operation. */
    public void fail(Throwable error) {
        span.recordException(error);
        fail(error.getClass().getName());
    }

    private void fail(String type) {
        failed = true;
        span.setStatus(StatusCode.ERROR);
        span.setAttribute(ERROR_TYPE, type);
        attributes.put(ERROR_TYPE, type);
    }

    /** Ends the span and records the duration. */
    @Override
    public void close() {
        scope.close();
        end();
    }

    private void end() {
        if (metric != null%SET%) {
            DURATIONS
                    .computeIfAbsent(metric, %CLASS%::duration)
                    .record((System.nanoTime() - start) / 1e9, attributes.build(), Context.current().with(span));
        }
        span.end();
    }

    private static DoubleHistogram duration(String metric) {
        return GlobalOpenTelemetry.%GET%()
                .getMeter(SCOPE)
                .histogramBuilder(metric)
                .setUnit("s")
                .setExplicitBucketBoundariesAdvice(
                        metric.startsWith("db.")
                                ? Arrays.asList(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
                                : Arrays.asList(
                                        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0))
                .build();
    }
`

// javaOrder is the order of the sections.
var javaOrder = []string{"", "http", "server", "handler", "servlet", "client", "database", "process", "headers", "kafka", "jms", "processing", "job", "task", "parent"}

// javaSections are the parts of the helper class, those of javaCore under "".
var javaSections = map[string]javaSection{
	"": {imports: []string{
		"io.opentelemetry.api.GlobalOpenTelemetry", "io.opentelemetry.api.common.AttributeKey", "io.opentelemetry.api.common.Attributes", "io.opentelemetry.api.common.AttributesBuilder",
		"io.opentelemetry.api.metrics.DoubleHistogram", "io.opentelemetry.api.trace.Span", "io.opentelemetry.api.trace.SpanKind", "io.opentelemetry.api.trace.StatusCode",
		"io.opentelemetry.context.Context", "io.opentelemetry.context.Scope", "java.util.Arrays", "java.util.Map", "java.util.concurrent.ConcurrentHashMap",
	}},
	"job": {text: `
    /** Starts a run of a job. The name is that of its method, with package and class. */
    public static %CLASS% job(String name) {
        String[] words = name.split("\\.");
        String brief = words.length < 2 ? name : words[words.length - 2] + "." + words[words.length - 1];
        Attributes attributes = Attributes.of(AttributeKey.stringKey("code.function.name"), name);
        return new %CLASS%(SpanKind.INTERNAL, brief, Context.current(), null, attributes);
    }
`},
	"task": {needs: []string{"job"}, text: `
    /** Returns a task with a span for each run. */
    public static Runnable job(String name, Runnable task) {
        return () -> {
            %CLASS% telemetry = job(name);
            try {
                task.run();
            } catch (Throwable error) {
                telemetry.fail(error);
                throw error;
            } finally {
                telemetry.close();
            }
        };
    }
`},
	"parent": {
		imports: []string{"io.opentelemetry.context.propagation.TextMapGetter", "java.util.Collections", "java.util.function.Function"},
		text: `
    /** Returns the context in the headers that a caller or producer has sent. */
    private static Context parent(Function<String, String> headers) {
        return GlobalOpenTelemetry.%GET%()
                .getPropagators()
                .getTextMapPropagator()
                .extract(
                        Context.current(),
                        headers,
                        new TextMapGetter<Function<String, String>>() {
                            @Override
                            public Iterable<String> keys(Function<String, String> carrier) {
                                return Collections.emptyList();
                            }

                            @Override
                            public String get(Function<String, String> carrier, String key) {
                                return carrier == null ? null : carrier.apply(key);
                            }
                        });
    }
`,
	},
	"process": {text: `
    /** Starts the processing of a message. The destination may be null. */
    public static %CLASS% process(String system, String destination) {
        return process(system, destination, Context.current());
    }
`, needs: []string{"processing"}},
	"processing": {text: `
    private static %CLASS% process(String system, String destination, Context parent) {
        AttributesBuilder attributes =
                Attributes.builder()
                        .put("messaging.system", system)
                        .put("messaging.operation.name", "process")
                        .put("messaging.operation.type", "process");
        if (destination != null) {
            attributes.put("messaging.destination.name", destination);
        }
        String name = destination == null ? "process" : "process " + destination;
        return new %CLASS%(SpanKind.CONSUMER, name, parent, "messaging.process.duration", attributes.build());
    }
`},
	"headers": {needs: []string{"parent", "processing"}, text: `
    /** Starts the processing of a message with headers. The destination and the headers may be null. */
    public static %CLASS% process(String system, String destination, Map<String, ?> headers) {
        Context parent =
                parent(
                        key -> {
                            Object value = headers == null ? null : headers.get(key);
                            return value == null ? null : value.toString();
                        });
        return process(system, destination, parent);
    }
`},
	"kafka": {
		imports: []string{"java.nio.charset.StandardCharsets", "org.apache.kafka.clients.consumer.ConsumerRecord", "org.apache.kafka.common.header.Header"},
		needs:   []string{"parent", "processing"},
		text: `
    /** Starts the processing of a record of Kafka. */
    public static %CLASS% process(ConsumerRecord<?, ?> record) {
        Context parent =
                parent(
                        key -> {
                            Header header = record.headers().lastHeader(key);
                            return header == null || header.value() == null
                                    ? null
                                    : new String(header.value(), StandardCharsets.UTF_8);
                        });
        return process("kafka", record.topic(), parent);
    }
`,
	},
	"jms": {
		imports: []string{"%EE%.jms.JMSException", "%EE%.jms.Message"},
		needs:   []string{"parent", "processing"},
		text: `
    /** Starts the processing of a message of JMS. The destination may be null. */
    public static %CLASS% process(Message message, String destination) {
        Context parent =
                parent(
                        key -> {
                            try {
                                return message.getStringProperty(key);
                            } catch (JMSException error) {
                                return null; // without a parent
                            }
                        });
        return process("jms", destination, parent);
    }
`,
	},
	"http": {
		imports: []string{"java.util.List"},
		text: `
    private static final List<String> METHODS =
            Arrays.asList("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE");

    private static String method(String method) {
        return METHODS.contains(method) ? method : "_OTHER";
    }

    /** Sets the status of a response. It is an error from a limit. */
    private void status(int status, int limit) {
        if (status < 100) {
            return; // no response
        }
        AttributeKey<Long> key = AttributeKey.longKey("http.response.status_code");
        span.setAttribute(key, (long) status);
        attributes.put(key, (long) status);
        if (status >= limit && !failed) {
            fail(String.valueOf(status));
        }
    }
`,
	},
	"server": {needs: []string{"http", "parent"}, imports: []string{"java.util.function.Function"}, text: `
    private static %CLASS% server(String method, String scheme, String route, Function<String, String> headers) {
        AttributesBuilder attributes =
                Attributes.builder().put("http.request.method", method(method)).put("url.scheme", scheme);
        String name = METHODS.contains(method) ? method : "HTTP";
        if (route != null) {
            attributes.put("http.route", route);
            name += " " + route;
        }
        return new %CLASS%(
                SpanKind.SERVER, name, parent(headers), "http.server.request.duration", attributes.build());
    }
`},
	"handler": {
		imports: []string{"com.sun.net.httpserver.HttpHandler", "com.sun.net.httpserver.HttpsExchange"},
		needs:   []string{"server"},
		text: `
    /** Returns a handler with a span for each request. The route is the path of its context. */
    public static HttpHandler server(HttpHandler handler) {
        return exchange -> {
            String scheme = exchange instanceof HttpsExchange ? "https" : "http";
            String route = exchange.getHttpContext().getPath();
            %CLASS% telemetry =
                    server(exchange.getRequestMethod(), scheme, route, exchange.getRequestHeaders()::getFirst);
            try {
                handler.handle(exchange);
            } catch (Throwable error) {
                telemetry.fail(error);
                throw error;
            } finally {
                telemetry.status(exchange.getResponseCode(), 500);
                telemetry.close();
            }
        };
    }
`,
	},
	"servlet": {
		imports: []string{"%EE%.servlet.http.HttpServletRequest", "%EE%.servlet.http.HttpServletResponse"},
		needs:   []string{"server"},
		text: `
    /** Starts the handling of a request. The route may be null. */
    public static %CLASS% server(HttpServletRequest request, String route) {
        return server(request.getMethod(), request.getScheme(), route, request::getHeader);
    }

    /** Ends the handling of a request. */
    public void close(HttpServletResponse response) {
        status(failed ? 500 : response.getStatus(), 500); // a container answers exceptions with 500
        close();
    }
`,
	},
	"client": {
		imports: []string{"java.io.IOException", "java.net.http.HttpClient", "java.net.http.HttpRequest", "java.net.http.HttpResponse", "java.util.concurrent.CompletableFuture", "java.util.concurrent.CompletionException"},
		needs:   []string{"http"},
		text: `
    /** Sends a request with a span. */
    public static <T> HttpResponse<T> send(
            HttpClient client, HttpRequest request, HttpResponse.BodyHandler<T> handler)
            throws IOException, InterruptedException {
        %CLASS% telemetry = client(request);
        try {
            HttpResponse<T> response = client.send(traced(request), handler);
            telemetry.status(response.statusCode(), 400);
            return response;
        } catch (Throwable error) {
            telemetry.fail(error);
            throw error;
        } finally {
            telemetry.close();
        }
    }

    /** Sends a request with a span, which ends with the response. */
    public static <T> CompletableFuture<HttpResponse<T>> sendAsync(
            HttpClient client, HttpRequest request, HttpResponse.BodyHandler<T> handler) {
        %CLASS% telemetry = client(request);
        try {
            CompletableFuture<HttpResponse<T>> future = client.sendAsync(traced(request), handler);
            future.whenComplete(
                    (response, error) -> {
                        if (error == null) {
                            telemetry.status(response.statusCode(), 400);
                        } else {
                            boolean wrapped = error instanceof CompletionException && error.getCause() != null;
                            telemetry.fail(wrapped ? error.getCause() : error);
                        }
                        telemetry.end();
                    });
            return future;
        } catch (Throwable error) {
            telemetry.fail(error);
            telemetry.end();
            throw error;
        } finally {
            telemetry.scope.close();
        }
    }

    private static %CLASS% client(HttpRequest request) {
        String method = METHODS.contains(request.method()) ? request.method() : "HTTP";
        AttributesBuilder attributes =
                Attributes.builder().put("http.request.method", method(request.method()));
        String host = request.uri().getHost();
        if (host != null) {
            int known = "https".equalsIgnoreCase(request.uri().getScheme()) ? 443 : 80;
            attributes.put("server.address", host);
            attributes.put("server.port", request.uri().getPort() < 0 ? known : request.uri().getPort());
        }
        return new %CLASS%(
                SpanKind.CLIENT, method, Context.current(), "http.client.request.duration", attributes.build());
    }

    /** Returns a request with the headers of the current context. */
    private static HttpRequest traced(HttpRequest request) {
        HttpRequest.Builder builder =
                HttpRequest.newBuilder(request.uri()).expectContinue(request.expectContinue());
        request.timeout().ifPresent(builder::timeout);
        request.version().ifPresent(builder::version);
        if (request.bodyPublisher().isPresent()) {
            builder.method(request.method(), request.bodyPublisher().get());
        } else if (request.method().equals("GET")) {
            builder.GET();
        } else if (request.method().equals("DELETE")) {
            builder.DELETE();
        } else {
            builder.method(request.method(), HttpRequest.BodyPublishers.noBody());
        }
        request.headers().map().forEach((name, values) -> values.forEach(value -> builder.header(name, value)));
        GlobalOpenTelemetry.%GET%()
                .getPropagators()
                .getTextMapPropagator()
                .inject(Context.current(), builder, (carrier, name, value) -> carrier.setHeader(name, value));
        return builder.build();
    }
`,
	},
	"database": {text: `
    /** A call of a database. */
    public interface Call<T, E extends Exception> {
        T call() throws E;
    }

    /** Calls a database with a span. The operation and the collection may be null. */
    public static <T, E extends Exception> T database(
            String system, String operation, String collection, Call<T, E> call) throws E {
        AttributesBuilder attributes = Attributes.builder().put("db.system.name", system);
        String name = system;
        if (operation != null) {
            attributes.put("db.operation.name", operation);
            name = operation;
        }
        if (collection != null) {
            attributes.put("db.collection.name", collection);
            name += " " + collection;
        }
        %CLASS% telemetry =
                new %CLASS%(
                        SpanKind.CLIENT, name, Context.current(), "db.client.operation.duration", attributes.build());
        try {
            return call.call();
        } catch (Throwable error) {
            telemetry.fail(error);
            throw error;
        } finally {
            telemetry.close();
        }
    }
`},
}
