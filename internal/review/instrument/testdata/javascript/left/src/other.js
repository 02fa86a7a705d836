// These have the names of libraries and are something else, or cannot be wrapped.
import { schedule } from './schedule.js';
import Database from './database.js';
import { CronJob } from 'cron';
import { WebSocketServer } from 'ws';

const job = { schedule() {} };
schedule('0 * * * *', () => {});
job.schedule('0 * * * *', () => {});
new Database('x');
process.on('message', () => {});
export function start(CronJob) {
  return new CronJob('0 * * * *', () => {});
}
const server = new WebSocketServer({ port: 1 });
server.on('connection', (socket) => {
  socket.on('error', () => {});
  process.on('message', () => {});
});
new CronJob('0 * * * *', function* () { yield 1; });
new CronJob('0 * * * *', condition ? start : stop);
CronJob.from(options());
CronJob.from({ cronTime: '0 * * * *', onTick() {} });
