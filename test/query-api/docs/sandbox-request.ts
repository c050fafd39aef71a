import { type PartnerResponse, sendRequest } from "../../support/partner.ts";
import type { Origins, PartnerContractWorld, SandboxPartner } from "./partner-world.ts";

/** A request to the sandbox environment. `path` is relative to its base URL. */
export interface PartnerRequest {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  headers: Record<string, string>;
  body?: unknown;
}

export type RequestFactory = (
  partner: SandboxPartner,
  world: PartnerContractWorld,
) => PartnerRequest | Promise<PartnerRequest>;

export function send({ queryOrigin, commandOrigin }: Origins, request: PartnerRequest): Promise<PartnerResponse> {
  const { method, path, headers, body } = request;
  return sendRequest(method, `${method === "GET" ? queryOrigin : commandOrigin}/sandbox/v1${path}`, headers, body);
}

export const createClinicHeaders = (partner: SandboxPartner) => ({
  ...partner.headers,
  "X-SERVICE-Clinic-ID": partner.clinicId,
});
