import { expect } from "chai";
import { partnerReads } from "../../../query-api/partner/reads.ts";
import type { Scope } from "../../../shared/domain/events/partner.ts";
import { type ClinicIds, openClinic } from "../../support/clinics.ts";
import { checkPartnerAnswer } from "../../support/partner-document.ts";
import {
  installationApproved,
  registerApplication,
  type TestApplication,
} from "../../support/partner-events.ts";
import { type Answer, request, type TestQueryApi } from "../../support/query-api.ts";

export interface RequestOptions {
  headers?: Record<string, string>;
  environment?: string;
  scopes?: Scope[];
}

/** A partner application that is installed at a clinic and calls the production API. */
export interface PartnerCaller {
  clinic: ClinicIds;
  application: TestApplication;
  get(path: string, asked?: RequestOptions): Promise<Answer>;
  /** Sends a GET, checks status 200 and the operation's schema, and returns the body. */
  body(operationId: string, path: string, asked?: RequestOptions): Promise<Answer["body"]>;
  /** Sends a GET that must fail, and returns its status and error code, for example `403 branch_denied`. */
  refusal(path: string, asked?: RequestOptions): Promise<string>;
}

/** Options for a request with the branch header. */
export const withBranchHeader = (id: string): RequestOptions => ({ headers: { "X-SERVICE-Branch-ID": id } });

/** @param clinic clinic of the installation; by default a new one */
export async function createCaller(api: TestQueryApi, clinic?: ClinicIds): Promise<PartnerCaller> {
  const at = clinic ?? (await openClinic(api.given));
  const application = await registerApplication(api.given);
  await api.given(installationApproved(application, at.clinicId));
  const get = async (
    path: string,
    { headers = {}, environment = "production", scopes }: RequestOptions = {},
  ) => {
    const token = await api.partnerToken({ ...application, ...(scopes ? { scopes } : {}) });
    const url = `${api.url}/${environment}/v1${path}`;
    const answer = await request(url, {
      Authorization: `Bearer ${token}`,
      "X-SERVICE-Clinic-ID": at.clinicId,
      ...headers,
    });
    checkPartnerAnswer("GET", url, answer);
    return answer;
  };
  return {
    clinic: at,
    application,
    get,
    async body(operationId, path, asked) {
      const answer = await get(path, asked);
      expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
      const read = partnerReads.find((one) => one.operationId === operationId);
      if (!read) throw new Error(`no such read: ${operationId}`);
      read.response.parse(answer.body);
      return answer.body;
    },
    async refusal(path, asked) {
      const answer = await get(path, asked);
      expect(answer.body.ok).to.equal(false);
      expect(answer.body.correlationId).to.equal(answer.headers.get("X-Correlation-ID"));
      return `${answer.status} ${answer.body.error}`;
    },
  };
}
