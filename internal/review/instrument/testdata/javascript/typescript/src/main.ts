import { PubSub } from '@google-cloud/pubsub';
import PgBoss from 'pg-boss';
import { Consumer } from 'sqs-consumer';

const QUEUE = 'invoices';

export async function start(url: string, handler: PgBoss.WorkHandler<{ id: number }>): Promise<void> {
  const boss = new PgBoss(url);
  await boss.work<{ id: number }>(QUEUE, { batchSize: 1 }, async ([job]) => {
    console.log((<{ id: number }>job!.data).id);
  });
  await boss.work(`${QUEUE}-late`, handler);
  const options = {
    queueUrl: url,
    handleMessage: async (message: { Body?: string }) => {
      console.log(message.Body?.length);
    },
  };
  Consumer.create(options).start();
  new PubSub().subscription('prices').on('message', (message) => message.ack());
}
