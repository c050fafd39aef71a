import { expect } from "chai";
import { partnerReads } from "../../../query-api/partner/reads.ts";
import type { Scope } from "../../../shared/domain/events/partner.ts";
import { type ClinicIds, openClinic } from "../../support/clinics.ts";
import { checkPartnerResponse } from "../../support/partner-document.ts";
import { installationApproved, registerApplication, type TestApplication } from "../../support/partner-events.ts";
import { type PortalResponse, request, type TestQueryApi } from "../../support/query-api.ts";

export interface RequestOptions {
  headers?: Record<string, string>;
  environment?: string;
  scopes?: Scope[];
}

/** A partner application that is installed at a clinic and calls the production API. */
export interface PartnerCaller {
  clinic: ClinicIds;
  application: TestApplication;
  get(path: string, options?: RequestOptions): Promise<PortalResponse>;
  /** Sends a GET, checks status 200 and the operation's schema, and returns the body. */
  readBody(operationId: string, path: string, options?: RequestOptions): Promise<PortalResponse["body"]>;
  /** Reads all pages of a list. @returns the ids of the records in the body's `member`, by page */
  readPageIds(operationId: string, path: string, member: string): Promise<string[][]>;
  /** Sends a GET request that must fail. @returns status and error code, such as `403 branch_denied` */
  readRefusal(path: string, options?: RequestOptions): Promise<string>;
}

/** Returns the options of a request with the branch header. */
export const withBranchHeader = (id: string): RequestOptions => ({ headers: { "X-SERVICE-Branch-ID": id } });

/** Creates a new caller before each test. The returned object always contains the current caller. */
export function setUpCaller(api: TestQueryApi): PartnerCaller {
  const caller = {} as PartnerCaller;
  beforeEach(async () => {
    Object.assign(caller, await createCaller(api));
  });
  return caller;
}

/** @param clinic clinic of the installation; by default a new clinic */
export async function createCaller(api: TestQueryApi, clinic?: ClinicIds): Promise<PartnerCaller> {
  const ownClinic = clinic ?? (await openClinic(api.given));
  const application = await registerApplication(api.given);
  await api.given(installationApproved(application, ownClinic.clinicId));
  const get = async (path: string, { headers = {}, environment = "production", scopes }: RequestOptions = {}) => {
    const token = await api.createPartnerToken({ ...application, ...(scopes ? { scopes } : {}) });
    const url = `${api.url}/${environment}/v1${path}`;
    const response = await request(url, {
      Authorization: `Bearer ${token}`,
      "X-SERVICE-Clinic-ID": ownClinic.clinicId,
      ...headers,
    });
    checkPartnerResponse("GET", url, response);
    return response;
  };
  const caller: PartnerCaller = {
    clinic: ownClinic,
    application,
    get,
    async readPageIds(operationId, path, member) {
      const pages: string[][] = [];
      let cursor: string | null = "";
      while (cursor !== null) {
        const body: PortalResponse["body"] = await caller.readBody(operationId, path + cursor);
        pages.push(body[member].map(({ id }: { id: string }) => id));
        expect(body.page.returned).to.equal(pages.at(-1)?.length);
        cursor = body.page.nextCursor && `${path.includes("?") ? "&" : "?"}cursor=${body.page.nextCursor}`;
      }
      return pages;
    },
    async readBody(operationId, path, options) {
      const response = await get(path, options);
      expect(response.status, JSON.stringify(response.body)).to.equal(200);
      const partnerRead = partnerReads.find((candidate) => candidate.operationId === operationId);
      if (!partnerRead) throw new Error(`Unknown partner read: ${operationId}`);
      partnerRead.response.parse(response.body);
      return response.body;
    },
    async readRefusal(path, options) {
      const response = await get(path, options);
      expect(response.body.ok).to.equal(false);
      expect(response.body.correlationId).to.equal(response.headers.get("X-Correlation-ID"));
      return `${response.status} ${response.body.error}`;
    },
  };
  return caller;
}
