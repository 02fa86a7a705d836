// Processes orders: jobs of queues, a schedule and messages of sockets.
import Database from "better-sqlite3"
import { Queue, Worker } from "bullmq"
import { CronJob } from "cron"
import * as mqtt from "mqtt"
import { WebSocketServer } from "ws"
import { refund } from "./refund.js"

const db = new Database("orders.db")
db.exec("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")

const insert = db.prepare('INSERT INTO "orders" VALUES (?)')

class Processor {
  count = 0

  process = async function (job, token) {
    this.count++
    return [job.data, token, insert.run(job.data), this.count]
  }
}

const processor = new Processor()
new Worker("orders", async (job) => {
  if (job.data === 13) throw new RangeError("no such order")
  return insert.run(job.data)
})
new Worker("refunds", refund, { concurrency: 2 })
new Worker("payments", processor.process.bind(processor))

const queue = new Queue("orders")
for (const id of [7, 13]) {
  await queue.add("order", id).then((result) => console.log("order", result), (error) => console.log("failed", error.name, error.message))
}
console.log("refund", await new Queue("refunds").add("refund", 8))
console.log("payment", await new Queue("payments").add("payment", 9))

const job = CronJob.from({ cronTime: "0 0 * * *", onTick: () => cleanup(), start: true })
function cleanup() {
  return db.prepare("SELECT count(*) FROM orders").get().rows
}
console.log("cleanup", job.tick())

const failing = new CronJob("0 1 * * *", function report() {
  throw new TypeError(`no report for ${typeof this}`)
})
try {
  failing.tick()
} catch (error) {
  console.log("failed", error.name, error.message)
}

const server = new WebSocketServer({ port: 0 })
server.on("connection", (socket, request) => {
  socket.on("message", function (data) {
    this.reply(`${data} from ${request.url}`)
  })
  socket.on("close", () => console.log("closed"))
})
server.connect("/shop", "hello")

const client = mqtt.connect("mqtt://broker")
client.on("message", (topic, payload) => console.log(topic, payload))
client.receive("prices", "1.50", { properties: { userProperties: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" } } })
