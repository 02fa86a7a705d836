import { SpanStatusCode } from '@opentelemetry/api'

// local calls f in a span. The span ends when f returns, or when the promise that it returns settles.
export function local(tracer, name, f) {
  return tracer.startActiveSpan(name, (span) => {
    const fail = (err) => {
      span.setStatus({ code: SpanStatusCode.ERROR, message: err.message || String(err) })
      span.end()
      throw err
    }
    let result
    try {
      result = f()
    } catch (err) {
      fail(err)
    }
    if (!result || typeof result.then !== 'function') {
      span.end()
      return result
    }
    return result.then((output) => {
      span.end()
      return output
    }, fail)
  })
}
