// SPDX-License-Identifier: Apache-2.0

package treesitter

import (
	"strings"
	"testing"
)

// Code of the kind that a review reads, repeated to the size of a large file.
var sources = map[Language]string{
	JavaScript: `
const { trace, SpanStatusCode } = require('@opentelemetry/api');
const tracer = trace.getTracer('checkout', '1.2.0');
async function charge(order, user) {
  return tracer.startActiveSpan('charge', { attributes: { 'order.items': order.items.length } }, async (span) => {
    try {
      const res = await fetch(url + '/v1/charges?order=' + order.id, { method: 'POST', headers: { ...auth } });
      if (!res.ok) { throw new Error(` + "`status ${res.status} of order ${order.id}`" + `); }
      return await res.json();
    } catch (err) {
      span.recordException(err);
      span.setStatus({ code: SpanStatusCode.ERROR, message: err?.message });
      throw err;
    } finally { span.end(); }
  });
}
module.exports = { charge };
`,
	Python: `
from opentelemetry import trace, metrics
tracer = trace.get_tracer(__name__)
orders = metrics.get_meter(__name__).create_counter("orders", unit="{order}", description="Accepted orders")

class Checkout(Base):
    """Accepts orders."""
    timeout: float = 2.5

    @retry(times=3)
    async def charge(self, order, *, currency="EUR"):
        with tracer.start_as_current_span("charge", attributes={"order.items": len(order.items)}) as span:
            try:
                response = await self.client.post(f"{self.url}/v1/charges/{order.id}", json={"amount": order.total})
                totals = [item.price * item.count for item in order.items if item.count > 0]
                if response.status != 200 or not totals:
                    raise ChargeError("status %d of order %s" % (response.status, order.id))
            except ChargeError as error:
                span.record_exception(error)
                raise
        orders.add(1, {"currency": currency})
        return sum(totals)
`,
	Java: `
package com.example.checkout;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;

/** Accepts orders. */
@Service
public class Checkout<T extends Order> implements Charger {
  private static final AttributeKey<String> CURRENCY = AttributeKey.stringKey("currency");
  private final Tracer tracer;

  @Override
  public Receipt charge(T order, Map<String, List<Integer>> options) throws ChargeException {
    Span span = tracer.spanBuilder("charge").setAttribute("order.items", order.items().size()).startSpan();
    try (Scope scope = span.makeCurrent()) {
      var response = client.send(HttpRequest.newBuilder(URI.create(url + "/v1/charges/" + order.id())).build());
      if (response.status() != 200) {
        throw new ChargeException(String.format("status %d of order %s", response.status(), order.id()));
      }
      return order.items().stream().map(i -> i.price() * i.count()).collect(toReceipt());
    } catch (ChargeException e) {
      span.recordException(e);
      throw e;
    } finally {
      span.end();
    }
  }
}
`,
}

func BenchmarkParse(b *testing.B) {
	sources[TypeScript] = strings.ReplaceAll(sources[JavaScript], "(order, user)", "(order: Order<Item[]>, user?: User): Promise<Receipt>")
	sources[TSX] = sources[TypeScript]
	for language := range languageCount {
		b.Run(languages[language], func(b *testing.B) {
			source := []byte(strings.Repeat(sources[language], 50_000/len(sources[language])))
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				if _, err := shared.Parse(b.Context(), language, source); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for name, dir := range map[string]string{"compiled": "", "cached": b.TempDir()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := New(b.Context(), dir)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
