import Router from "@koa/router";
import type Koa from "koa";

/** Encoded slashes, empty and dot segments: a server in front may take the path for another one. */
const AMBIGUOUS = /%2f|%5c|\\|\/\/|\/(\.|%2e){1,2}(\/|$)/i;

/**
 * Creates a router whose paths have one spelling: another case, a trailing slash, an encoded slash or a dot segment
 * matches no route. The routers of all services come from here, so that a rule that an ingress has for a path also
 * holds for the operation behind it.
 *
 * @param prefix what all paths of the router begin with
 */
export function createRouter<State = Koa.DefaultState>(prefix = ""): Router<State> {
  const router = new Router<State>({ sensitive: true, strict: true, ...(prefix && { prefix }) });
  const match = router.match.bind(router);
  router.match = (path, method) =>
    AMBIGUOUS.test(path) ? { path: [], pathAndMethod: [], route: false } : match(path, method);
  return router;
}
