import { connect } from 'nats';

const connection = await connect();
for await (const message of connection.subscribe('orders')) console.log(message.subject);
