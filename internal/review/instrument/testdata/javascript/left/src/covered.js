// Automatic instrumentation or a package of the manifest covers these.
const express = require('express');
const { Pool } = require('pg');
const { Kafka } = require('kafkajs');
const amqp = require('amqplib');
const { Worker } = require('bullmq');

const app = express();
const pool = new Pool();
new Kafka({}).consumer({}).run({ eachMessage: async () => pool.query('SELECT 1') });
new Worker('orders', async () => fetch('http://stock'));
amqp.connect().then((connection) => connection.createChannel()).then((channel) => channel.consume('mails', () => {}));
app.listen(80);
