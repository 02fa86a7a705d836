// SPDX-License-Identifier: Apache-2.0
'use strict'

const { Annotation } = require('zipkin')
const tracer = require('./tracing.js')

const wait = () => new Promise((resolve) => setImmediate(resolve))

// send books a courier.
async function send(parcel) {
  const id = tracer.createChildId()
  return tracer.letId(id, async () => {
    tracer.recordServiceName('parcels')
    tracer.recordRpc('book')
    tracer.recordAnnotation(new Annotation.ClientSend())
    tracer.recordAnnotation(new Annotation.ServerAddr({ serviceName: 'couriers', port: 8080 }))
    tracer.recordBinary('http.method', 'POST')
    await wait()
    tracer.letId(id, () => {
      if (parcel > 1) {
        tracer.recordBinary('error', 'no courier')
      }
      tracer.recordAnnotation(new Annotation.ClientRecv())
    })
    return tracer.id.traceId
  })
}

// pack is done in the process.
const pack = (parcel) => tracer.local('pack', () => {
  tracer.recordMessage('packed')
  tracer.setTags({ 'parcel.number': `${parcel}` })
  return parcel
})

// handle answers a request.
function handle(parcel) {
  return tracer.scoped(() => {
    tracer.setId(tracer.createRootId())
    tracer.recordServiceName('parcels')
    tracer.recordRpc('post /parcels')
    tracer.recordAnnotation(new Annotation.ServerRecv()) // with the first byte
    return tracer.local('store', async () => {
      await wait()
      await send(pack(parcel))
      if (parcel > 1) {
        throw new Error('not stored')
      }
    }).then(() => {
      tracer.recordAnnotation(new Annotation.ServerSend())
    }, () => {
      tracer.recordRpc('post /parcels/failed')
      tracer.recordAnnotation(new Annotation.ServerSend())
    })
  })
}

handle(1).then(() => handle(2)).then(() => {
  tracer.scoped(() => {
    const job = tracer.createRootId()
    tracer.setId(job)
    tracer.recordAnnotation(new Annotation.LocalOperationStart('sweep'))
    tracer.scoped(() => {
      tracer.setId(tracer.createChildId(job))
      tracer.recordAnnotation(new Annotation.ProducerStart())
      tracer.recordRpc('publish')
      tracer.recordAnnotation(new Annotation.ProducerStop())
    })
    tracer.scoped(() => {
      tracer.setId(job)
      tracer.recordAnnotation(new Annotation.LocalOperationStop())
    })
  })
})
