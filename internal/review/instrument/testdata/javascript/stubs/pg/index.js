'use strict';

class Client {
  query(text, callback) {
    if (typeof callback === 'function') {
      setImmediate(callback, Object.assign(new Error('no column'), { code: '42703' }));
      return undefined;
    }
    return Promise.resolve({ rows: [typeof text === 'string' ? text : text.values] });
  }
}

/** A pool whose queries run on a connection that it gets by connect, as those of pg do. */
exports.Pool = class Pool {
  client = new Client();

  connect(callback) {
    if (callback) {
      setImmediate(callback, null, this.client, () => {});
      return undefined;
    }
    return Promise.resolve(this.client);
  }

  query(text, callback) {
    return new Promise((resolve, reject) => {
      this.connect((error, client) => {
        const result = client.query(text, callback);
        if (result) result.then(resolve, reject);
        else resolve();
      });
    });
  }
};
