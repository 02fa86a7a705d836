'use strict';

const { EventEmitter } = require('node:events');

class Client extends EventEmitter {
  receive(topic, payload, packet) {
    this.emit('message', topic, payload, packet);
  }
}

exports.connect = () => new Client();
