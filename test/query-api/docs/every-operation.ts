import { randomUUID } from "node:crypto";
import {
  APPLICATION_PATH,
  listMounts,
  type PartnerOperation,
  type PartnerOperationId,
  partnerOperations,
} from "../../../shared/partner-api/operations.ts";
import { applicationRequests, validRequests } from "./partner-requests.ts";
import type { PartnerRequest, RequestFactory } from "./sandbox-request.ts";

/** An operation at one of its paths, with a request that succeeds for the owner of its objects. */
export interface ServedOperation {
  /** Method and path. */
  name: string;
  operation: PartnerOperation;
  createRequest: RequestFactory;
}

/** All operations that need a token. Operations that also exist without a clinic, for the application, occur twice. */
export const everyOperation: readonly ServedOperation[] = (
  Object.entries(partnerOperations) as [PartnerOperationId, PartnerOperation][]
)
  .filter(([, { scope }]) => scope !== null)
  .flatMap(([id, declared]) =>
    listMounts(declared).map((operation) => {
      const createRequest = (operation === declared ? validRequests : applicationRequests)[id];
      if (!createRequest) throw new Error(`There is no request to ${operation.path}.`);
      return { name: `${operation.method} ${operation.path}`, operation, createRequest };
    }),
  );

const CLINIC_HEADER = "X-SERVICE-Clinic-ID";
const BRANCH_HEADER = "X-SERVICE-Branch-ID";

/** Credentials and ids of callers who may not access the owner's objects. */
export interface Strangers {
  /** Headers of another application with all scopes. */
  otherApplication: Record<string, string>;
  /** Headers of another application whose installation at the clinic was revoked. */
  revokedInstallation: Record<string, string>;
  /** Headers of an application that was revoked. */
  revokedApplication: Record<string, string>;
  /** Headers of an application in the other environment. */
  otherEnvironment: Record<string, string>;
  /** Headers of another application that the owner's clinic has approved. */
  neighbour: Record<string, string>;
  /** Another clinic at which the owner's application is installed. */
  otherClinicId: string;
  /** Returns headers with a token of the owner that lacks the scope. */
  withoutScope(scope: string): Record<string, string>;
}

/** A stranger's request, and the status and error code that it must get. */
interface StrangerRequest {
  stranger: string;
  request: PartnerRequest;
  refusal: string;
}

const NOT_FOUND = "404 not_found";

const UNKNOWN_IDS: Readonly<Record<string, string>> = {
  appointmentId: "404 appointment_not_found",
  linkId: "404 animal_link_not_found",
  endpointId: "404 webhook_endpoint_not_found",
  deliveryId: "404 webhook_delivery_not_found",
  replayId: "404 webhook_replay_not_found",
};

/** Lists requests of all strangers to an operation. @param valid valid request of the owner */
export function listStrangerRequests(
  { path, method, scope, requiresClinic, isForOwner }: PartnerOperation,
  valid: PartnerRequest,
  strangers: Strangers,
): StrangerRequest[] {
  const requests: StrangerRequest[] = [];
  const add = (stranger: string, change: Partial<PartnerRequest>, refusal: string) =>
    requests.push({ stranger, request: { ...valid, ...change }, refusal });
  const withHeaders = (headers: Record<string, string>) => ({ headers: { ...valid.headers, ...headers } });
  const without = (name: string) => ({
    headers: Object.fromEntries(Object.entries(valid.headers).filter(([header]) => header !== name)),
  });
  add("without a token", without("Authorization"), "401 missing_token");
  add("of a revoked application", withHeaders(strangers.revokedApplication), "401 invalid_token");
  add("of the other environment", withHeaders(strangers.otherEnvironment), "401 invalid_token");
  add("without the scope", withHeaders(strangers.withoutScope(scope ?? "")), "403 insufficient_scope");
  if (requiresClinic) {
    add("without a clinic", without(CLINIC_HEADER), "403 clinic_header_invalid");
    add("with an invalid clinic", withHeaders({ [CLINIC_HEADER]: "main" }), "403 clinic_header_invalid");
    add("of an unknown clinic", withHeaders({ [CLINIC_HEADER]: randomUUID() }), "403 installation_denied");
    add("of another application", withHeaders(strangers.otherApplication), "403 installation_denied");
    add("of a revoked installation", withHeaders(strangers.revokedInstallation), "403 installation_denied");
    add("of an unknown branch", withHeaders({ [BRANCH_HEADER]: randomUUID() }), "403 branch_denied");
    add("of an invalid branch", withHeaders({ [BRANCH_HEADER]: "main" }), "403 branch_denied");
  }
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]) => name);
  const [firstName] = names;
  if (firstName === undefined) return requests;
  const notFound = UNKNOWN_IDS[firstName] ?? NOT_FOUND;
  if (requiresClinic) add("of another clinic", withHeaders({ [CLINIC_HEADER]: strangers.otherClinicId }), notFound);
  // Another application has no such object of its own, or no such sandbox.
  else add("of another application", withHeaders(strangers.otherApplication), notFound);
  if (isForOwner) {
    if (requiresClinic) add("of another application at the clinic", withHeaders(strangers.neighbour), notFound);
    const otherPath = requiresClinic ? `${APPLICATION_PATH}${valid.path}` : valid.path.replace(APPLICATION_PATH, "");
    const headers = { [CLINIC_HEADER]: strangers.otherClinicId, ...valid.headers };
    // A setting that the endpoints of both owners have.
    const body = method === "PATCH" ? { rateLimitPerSecond: 5 } : valid.body;
    add("to the other owner of endpoints", { path: otherPath, headers, body }, notFound);
  }
  const segments = path.split("/");
  for (const name of names) {
    const refusal =
      name === "deliveryId" && method === "POST" ? "409 delivery_not_replayable" : (UNKNOWN_IDS[name] ?? NOT_FOUND);
    for (const id of [randomUUID(), "x"]) {
      const [pathOnly = "", query] = valid.path.split("?");
      const parts = pathOnly.split("/");
      parts[segments.indexOf(`:${name}`)] = id;
      add(`with the unknown ${name} ${id}`, { path: [parts.join("/"), ...(query ? [query] : [])].join("?") }, refusal);
    }
  }
  return requests;
}
