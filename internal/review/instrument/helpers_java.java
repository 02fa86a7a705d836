// SPDX-License-Identifier: Apache-2.0
//
// The class that instrumented code calls. Each part begins with its name, the names of the parts that it needs, and its
// imports. %CLASS% is the name of the class, %SCOPE% that of its instrumentation scope, %EE% is javax or jakarta.
// %GET% and %SET% say how it gets OpenTelemetry.

// part core
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * An operation with a span, and with a duration where the conventions of OpenTelemetry have a metric for it.
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
// part http
import java.util.List;

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
// part server: http parent
import java.util.function.Function;

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
// part handler: server
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpsExchange;

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
// part servlet: server
import %EE%.servlet.http.HttpServletRequest;
import %EE%.servlet.http.HttpServletResponse;

    /** Starts the handling of a request. The route may be null. */
    public static %CLASS% server(HttpServletRequest request, String route) {
        return server(request.getMethod(), request.getScheme(), route, request::getHeader);
    }

    /** Ends the handling of a request. */
    public void close(HttpServletResponse response) {
        status(failed ? 500 : response.getStatus(), 500); // a container answers exceptions with 500
        close();
    }
// part client: http
import java.io.IOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

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
// part database

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
// part process: processing

    /** Starts the processing of a message. The destination may be null. */
    public static %CLASS% process(String system, String destination) {
        return process(system, destination, Context.current());
    }
// part headers: parent processing

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
// part kafka: parent processing
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

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
// part jms: parent processing
import %EE%.jms.JMSException;
import %EE%.jms.Message;

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
// part processing

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
// part job

    /** Starts a run of a job. The name is that of its method, with package and class. */
    public static %CLASS% job(String name) {
        String[] words = name.split("\\.");
        String brief = words.length < 2 ? name : words[words.length - 2] + "." + words[words.length - 1];
        Attributes attributes = Attributes.of(AttributeKey.stringKey("code.function.name"), name);
        return new %CLASS%(SpanKind.INTERNAL, brief, Context.current(), null, attributes);
    }
// part task: job

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
// part parent
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.Collections;
import java.util.function.Function;

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
