import Router from "@koa/router";
import type Koa from "koa";

/** Matches encoded slashes, empty segments and dot segments, which a proxy may interpret as another path. */
const AMBIGUOUS = /%2f|%5c|\\|\/\/|\/(\.|%2e){1,2}(\/|$)/i;

/**
 * Creates a router whose paths have only one spelling: another case, a trailing slash, an encoded slash or a dot
 * segment matches no route. All services use it, so that a proxy's rule for a path always applies to the operation
 * behind it.
 *
 * @param prefix prefix of all paths of the router
 */
export function createRouter<State = Koa.DefaultState>(prefix = ""): Router<State> {
  const router = new Router<State>({ sensitive: true, strict: true, ...(prefix && { prefix }) });
  const match = router.match.bind(router);
  router.match = (path, method) =>
    AMBIGUOUS.test(path) ? { path: [], pathAndMethod: [], route: false } : match(path, method);
  return router;
}
