'use strict';

exports.Kafka = class Kafka {
  consumer() {
    return {
      async run(options) {
        this.options = options;
      },
      async deliver(topic, message) {
        return this.options.eachMessage({ topic, message });
      },
    };
  }
};
