import { OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable } from '@nestjs/common';
import { Cron, CronExpression, Interval } from '@nestjs/schedule';
import type { Job } from 'bullmq';
import { Span } from 'nestjs-otel';

@Processor('orders', { concurrency: 2 })
export class OrderProcessor extends WorkerHost {
  constructor(private readonly seen: Set<string>) {
    super();
  }

  async process(job: Job<{ id: string }>): Promise<string> {
    this.seen.add(job.data.id);
    return job.data.id;
  }

  @OnWorkerEvent('completed')
  onCompleted(): void {}
}

@Injectable()
export class Jobs {
  @Cron(CronExpression.EVERY_HOUR)
  async cleanup(): Promise<void> {}

  @Interval(1000) refresh() {}

  @Span('report')
  @Cron('0 0 * * *')
  report(): void {}
}
