// SPDX-License-Identifier: Apache-2.0
import tracer from 'dd-trace';
tracer.init(); // in a file of its own, before others
export default tracer;
