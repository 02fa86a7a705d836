'use strict';

/** An application that handles requests in the way of Express: the function calls the method handle. */
module.exports = () => {
  const routes = [];
  const app = (request, response) => app.handle(request, response);
  app.get = (path, handler) => routes.push({ path, pattern: new RegExp(`^${path.replace(/:\w+/, '(?<id>\\w+)')}$`), handler });
  app.handle = (request, response) => {
    for (const route of routes) {
      const match = route.pattern.exec(request.url.split('?')[0]);
      if (match) {
        Object.assign(request, { baseUrl: '', route, params: { ...match.groups } });
        return route.handler(request, response);
      }
    }
    response.statusCode = 404;
    response.end('Not Found');
  };
  return app;
};
