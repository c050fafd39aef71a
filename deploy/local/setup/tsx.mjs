/** Loads TypeScript files with tsx, in worker threads too: `node --import ./deploy/local/setup/tsx.mjs <file>`. */
import { isMainThread } from "node:worker_threads";

if (isMainThread) await import("tsx");
// With Node 20, the import of tsx has no effect in a worker thread.
else (await import("tsx/esm/api")).register();
