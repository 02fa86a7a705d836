import { context, SpanStatusCode } from '@opentelemetry/api'

// local calls f in a span. The span ends when f calls its second parameter, when the promise that f returns settles, or
// when f returns. With options, f receives the span, and the span records exceptions.
export function local(tracer, name, f, options, parent = context.active()) {
  return tracer.startActiveSpan(name, options || {}, parent, (span) => {
    const end = (err) => {
      if (err) {
        if (options) span.recordException(err)
        span.setStatus({ code: SpanStatusCode.ERROR, message: err.message || String(err) })
      }
      span.end()
    }
    const fail = (err) => {
      end(err)
      throw err
    }
    let result
    try {
      if (options && f.length > 1) {
        return f(span, (err) => end(err instanceof Error ? err : undefined))
      }
      result = options ? f(span) : f()
    } catch (err) {
      fail(err)
    }
    if (!result || typeof result.then !== 'function') {
      end()
      return result
    }
    return result.then((output) => {
      end()
      return output
    }, fail)
  })
}

// wrap returns a function that calls f in a span. If the last argument is a function, the span ends when f calls it.
export function wrap(tracer, name, f, options) {
  const wrapped = function (...args) {
    const callback = args[args.length - 1]
    if (typeof callback !== 'function') return local(tracer, name, () => f.apply(this, args), options)
    const bound = context.bind(context.active(), callback)
    return local(tracer, name, (span, done) => {
      args[args.length - 1] = function (...results) {
        done(results[0])
        return bound.apply(this, results)
      }
      return f.apply(this, args)
    }, options)
  }
  return Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(f))
}
