'use strict';

exports.connect = async () => ({
  createChannel: async () => ({
    async consume(queue, handler) {
      this.handler = handler;
    },
    deliver(message) {
      this.handler(message);
    },
  }),
});
