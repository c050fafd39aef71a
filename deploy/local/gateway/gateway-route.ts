export type Upstream = "command" | "queryApi" | "audit";

/**
 * Which service a request belongs to: the portal's and the auditors' paths to their service whatever the method, so
 * that it can refuse the wrong ones; else the method decides, and one exact path. No spelling of another path (doubled
 * slashes, dots, percent codes) leads elsewhere, since nothing is decoded or normalised here.
 *
 * @param target the request target as it was sent
 * @returns undefined for a target that is not a path, such as another server's address or `*`
 */
export function routeOf(method: string, target: string): Upstream | undefined {
  if (!target.startsWith("/")) return undefined;
  const path = target.split("?", 1)[0] ?? "";
  if (path === "/.well-known/jwks.json") return "command";
  if (path.startsWith("/api/v1/")) return "queryApi";
  if (path === "/audit" || path.startsWith("/audit/")) return "audit";
  return method === "GET" || method === "HEAD" ? "queryApi" : "command";
}
