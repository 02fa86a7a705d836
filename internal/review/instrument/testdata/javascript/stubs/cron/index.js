'use strict';

exports.CronJob = class CronJob {
  constructor(time, onTick) {
    this.onTick = onTick;
  }

  static from({ cronTime, onTick }) {
    return new CronJob(cronTime, onTick);
  }

  tick() {
    return this.onTick.call(this);
  }
};
