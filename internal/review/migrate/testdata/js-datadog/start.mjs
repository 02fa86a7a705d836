// SPDX-License-Identifier: Apache-2.0
import 'dd-trace/init';
import tracer from 'dd-trace';
import express from 'express'; // the server

const app = express();
app.use((req, res, next) => {
  tracer.trace('request', () => next());
});
