'use strict';

const handlers = {};

exports.Worker = class Worker {
  constructor(name, handler) {
    handlers[name] = handler;
    console.log('worker', name, handler.name, handler.length);
  }
};

exports.Queue = class Queue {
  constructor(name) {
    this.name = name;
  }

  async add(name, data) {
    return handlers[this.name]({ name, data }, 'token');
  }
};
