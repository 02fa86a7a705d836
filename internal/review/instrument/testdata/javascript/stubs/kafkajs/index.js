'use strict';

exports.Kafka = class Kafka {
  producer() {
    return {
      send: async ({ topic, messages, acks }) => {
        for (const { key, value } of messages) console.log('sent', topic, key, value, acks);
        for (const message of messages) await this.current.deliver(topic, message);
      },
    };
  }

  consumer() {
    this.current = {
      async run(options) {
        this.options = options;
      },
      async deliver(topic, message) {
        return this.options.eachMessage({ topic, message });
      },
    };
    return this.current;
  }
};
