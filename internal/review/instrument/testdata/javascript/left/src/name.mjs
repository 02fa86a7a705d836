import { CronJob } from 'cron';

export function traceJob() {}

new CronJob('0 * * * *', () => {});
