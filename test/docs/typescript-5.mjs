/**
 * Makes `import "typescript"` load TypeScript 5 in the program that imports this file first. openapi-typescript needs
 * the compiler's JavaScript API, which TypeScript 7 does not have.
 */
import { register } from "node:module";
import { isMainThread } from "node:worker_threads";

// Node loads the hook below in a thread of its own.
if (isMainThread) register(import.meta.url);

export function resolve(specifier, context, nextResolve) {
  return nextResolve(specifier === "typescript" ? "typescript-5" : specifier, context);
}
