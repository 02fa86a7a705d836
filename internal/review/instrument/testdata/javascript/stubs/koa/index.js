'use strict';

module.exports = class Koa {
  use(middleware) {
    this.middleware = middleware;
  }

  callback() {
    return (req, res) => this.handleRequest({ req, res }, this.middleware);
  }

  async handleRequest(ctx, middleware) {
    await middleware(ctx);
    ctx.res.end(JSON.stringify(ctx.body));
  }
};
