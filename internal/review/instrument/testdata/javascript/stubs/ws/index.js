'use strict';

const { EventEmitter } = require('node:events');

exports.WebSocketServer = class WebSocketServer extends EventEmitter {
  connect(url, message) {
    const socket = new EventEmitter();
    socket.reply = (text) => console.log('reply', text);
    this.emit('connection', socket, { url });
    socket.emit('message', message);
    socket.emit('close');
  }
};
