import Queue, { type Job } from 'bull';

const queue = new Queue<{ to: string }>('mails', process.env.REDIS_URL!);

export class Mailer {
  constructor(private readonly sent: string[] = []) {
    queue.process(async (job: Job<{ to: string }>) => this.sent.push(job.data.to));
    queue.process('late', 5, this.late);
    queue.process('files', `${__dirname}/files.js`);
  }

  late = async (job: Job<{ to: string }>) => this.sent.push(job.data.to);
}

queue.process('callback', (job, done) => done(null, job.id));
