// SPDX-License-Identifier: Apache-2.0
import tracer from './tracer';

export const check = tracer.wrap('check', (name: string): boolean => name !== '');
