#!/usr/bin/env node
'use strict';

// Answers requests and consumes messages, with an SDK that instruments nothing.
const express = require('express'), http = require('http');
const Koa = require('koa');
const fastify = require('fastify')();
const { Kafka } = require('kafkajs');
const amqp = require('amqplib');
const { Pool } = require('pg');

const pool = new Pool();
const app = express();
const koa = new Koa();

app.get('/items/:id', async (req, res) => {
  const { rows } = await pool.query({ text: 'SELECT * FROM items WHERE id = $1', values: [req.params.id] });
  res.end(JSON.stringify(rows));
});
app.get('/broken', (req, res) => {
  pool.query('UPDATE items SET broken = 1', (error) => {
    res.statusCode = 500;
    res.end(error.message);
  });
});
koa.use(async (ctx) => {
  const client = await pool.connect();
  ctx.body = (await client.query('DELETE FROM items')).rows;
});
fastify.get('/fast/:id', async (request) => `fast ${request.params.id}`);

async function serve(server, ...paths) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  for (const path of paths) {
    const response = await fetch(`http://127.0.0.1:${server.address().port}${path}`, { headers: { accept: 'text/plain' } });
    console.log(path, response.status, await response.text());
  }
  server.close();
}

function echo(req, res) {
  res.write(`${req.method} ${req.headers.accept} `);
  req.pipe(res);
}

async function post(server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}/orders`;
  const options = new Request(url, { method: 'POST', body: 'order', headers: { accept: 'text/plain' } });
  console.log(await (await fetch(url, options)).text());
  server.close();
}

async function main() {
  await serve(http.createServer(app), '/items/7?token=secret', '/broken', '/none');
  await serve(http.createServer((req, res) => res.end(`${req.method} ${req.headers.accept}`)), '/plain');
  await serve(http.createServer(koa.callback()), '/koa');
  await serve(fastify.server, '/fast/3');
  await post(http.createServer(echo));
  await fetch('http://127.0.0.1:1/closed').catch((error) => console.log(error.name, error.message));
  const relative = '/relative';
  await fetch(relative).catch((error) => console.log(error.name));

  const kafka = new Kafka({ brokers: [] });
  const consumer = kafka.consumer({ groupId: 'stock' });
  await consumer.run({
    autoCommit: true,
    eachMessage: async ({ topic, message }) => {
      if (message.value === null) throw Object.assign(new Error('no value'), { code: 'ERR_VALUE' });
      console.log(topic, message.value);
    },
  });
  const headers = { traceparent: Buffer.from('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01') };
  await consumer.deliver('stock', { value: 'a', headers });
  await consumer.deliver('stock', { value: null }).catch((error) => console.log(error.message));

  const producer = kafka.producer();
  await producer.send({ topic: 'stock', acks: -1, messages: [{ key: 'k', value: 'b', headers: { a: '1' } }] });
  await producer.send({ topic: 'stock', messages: [{ value: null }] }).catch((error) => console.log(error.message));

  const channel = await (await amqp.connect()).createChannel();
  await channel.consume('mails', (message) => console.log(message && message.content), { noAck: true });
  channel.deliver({ content: 'mail', properties: { headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } } });
  channel.deliver({ content: 'table', properties: { headers: { traceparent: { toString: 'a' } } } });
  channel.deliver(null);
}

main();
