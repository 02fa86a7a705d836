'use strict';

const http = require('node:http');

module.exports = () => {
  const hooks = [];
  let route;
  const server = http.createServer((raw, response) => {
    const id = raw.url.split('/').at(-1);
    const request = { raw, params: { id }, routeOptions: { url: route.url } };
    const next = (n) => (n < hooks.length ? hooks[n](request, { raw: response }, () => next(n + 1)) : route.handler(request).then((text) => response.end(text)));
    next(0);
  });
  return {
    server,
    addHook: (name, hook) => hooks.push(hook),
    get: (url, handler) => {
      route = { url, handler };
    },
  };
};
