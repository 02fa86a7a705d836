package shop;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Scope;
import io.opentelemetry.instrumentation.annotations.WithSpan;
import io.opentelemetry.instrumentation.annotations.SpanAttribute;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

public class Order {
  private static final Logger log = LoggerFactory.getLogger(Order.class);
  private static final String EMAIL = "user.email";
  private static final AttributeKey<String> METHOD = AttributeKey.stringKey("http.method"); // want: semconv-deprecated
  private final Tracer tracer = GlobalOpenTelemetry.getTracer("shop");
  private final Meter meter = GlobalOpenTelemetry.getMeter("shop");
  private final LongCounter orders = meter.counterBuilder("orders").build(); // want: metric-unit
  private final LongCounter ok = meter
      .counterBuilder("shop.orders")
      .setUnit("{order}")
      .build();
  private final LongCounter bad = meter
      .counterBuilder("shop.bad")
      .setUnit("items") // want: metric-unit
      .build();
  private final LongCounter missing = meter
      .counterBuilder("shop.missing") // want: metric-unit
      .setDescription("x")
      .build();

  void a(String id, User user, HttpServletRequest request) {
    Span span = tracer.spanBuilder("order " + id).startSpan(); // want: span-name-dynamic
    try (Scope scope = span.makeCurrent()) {
      span.setAttribute(EMAIL, user.getAddress()); // want: sensitive-attribute
      span.setAttribute("card", user.getCardNumber()); // want: sensitive-attribute
      span.setAttribute(METHOD, request.getMethod());
      span.setAttribute("host.name", "x"); // want: attribute-level
      span.setAttribute("email.verified", user.isEmailVerified());
      span.setAttribute("password.length", user.getPassword().length());
      work();
    } catch (Exception e) { // want: span-error-unrecorded
      log.error("failed", e);
      throw new RuntimeException(e);
    } finally {
      span.end();
    }
  }

  void b() {
    Span span = tracer.spanBuilder("b").startSpan(); // want: span-not-ended
    try (Scope scope = span.makeCurrent()) {
      work();
      span.end();
    } catch (Exception e) {
      span.recordException(e);
      span.setStatus(StatusCode.ERROR);
      throw e;
    }
  }

  void c(String orderId) {
    Span span = tracer.spanBuilder(String.format("c %s", orderId)).setAttribute("user.ssn", ssn) // want: span-name-dynamic sensitive-attribute
        .startSpan();
    try {
      work();
    } catch (Exception e) {
      span.recordException(e);
      throw e;
    } finally {
      span.end();
    }
  }

  @WithSpan("d")
  void d(@SpanAttribute("user.email") String email) { // want: sensitive-attribute
    work();
  }

  void e(String userId, Exception ex, HttpServletRequest request) {
    orders.add(1, Attributes.of(AttributeKey.stringKey("user.id"), userId)); // want: metric-attribute-unbounded
    orders.add(1, Attributes.builder().put("error", ex.getMessage()).put("kind", "x").build()); // want: metric-attribute-unbounded
    orders.add(1, Attributes.builder().put("uri", request.getRequestURI()).build()); // want: metric-attribute-unbounded
    orders.add(1, Attributes.builder().put("method", request.getMethod()).build());
  }

  void f(User user, String password, HttpServletRequest request) {
    log.info("login {}", user.getEmail()); // want: sensitive-log
    log.info("login " + user.getEmail()); // want: sensitive-log
    log.debug("password: {}", password); // want: sensitive-log
    log.debug("env {}", System.getenv()); // want: sensitive-log
    log.debug("auth {}", request.getHeader("Authorization")); // want: sensitive-log
    log.info("user {} logged in", user.getId());
    log.info("password reset for {}", user.getId());
    log.info("has token {}", token != null);
  }

  void g(List<Item> items) {
    for (Item item : items) {
      Span span = tracer.spanBuilder("item").startSpan(); // want: span-noise
      total(item);
      span.end();
    }
  }
}
