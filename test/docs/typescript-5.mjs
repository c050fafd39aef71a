/**
 * Preload module that makes `import "typescript"` load TypeScript 5. openapi-typescript needs the compiler's JavaScript
 * API, which TypeScript 7 does not have.
 */
import { register } from "node:module";
import { isMainThread } from "node:worker_threads";

// Node loads the hook below in a thread of its own.
if (isMainThread) register(import.meta.url);

export function resolve(specifier, context, nextResolve) {
  return nextResolve(specifier === "typescript" ? "typescript-5" : specifier, context);
}
