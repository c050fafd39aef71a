/**
 * Measures what a user might choose instead of this service, under the same conditions and in the same run:
 *
 * - graphile-worker sends webhooks that wait in its queue. The reference signs and posts webhooks without a queue.
 *
 *     npm run bench -- alternatives
 */
import { mochaGlobalTeardown } from "../support/stack.ts";
import { measureGraphileWorker } from "./alternatives/graphile-worker.ts";

try {
  await measureGraphileWorker();
} finally {
  await mochaGlobalTeardown();
}
