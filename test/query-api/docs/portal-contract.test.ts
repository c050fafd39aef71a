import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { startQueryApi } from "../../../query-api/start.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { openClinic } from "../../support/clinics.ts";
import type { CheckedResponse } from "../../support/openapi.ts";
import { createPortalChecker } from "../../support/portal-document.ts";
import { request, startTestQueryApi } from "../../support/query-api.ts";
import { queryEnvironment } from "../../support/query-environment.ts";
import { autoStop, useResource } from "../../support/resources.ts";

const checker = createPortalChecker();

describe("responses of the portal API", () => {
  const api = useResource(startTestQueryApi);
  let serviceWithoutServers: Awaited<ReturnType<typeof startQueryApi>>;
  let userId: string;

  before(async () => {
    ({ userId } = await openClinic(api.given));
    const { issuer: PORTAL_JWT_ISSUER, secret: PORTAL_JWT_SECRET, cookieName } = api.provider;
    serviceWithoutServers = await autoStop(
      startQueryApi({ ...queryEnvironment, PORTAL_JWT_ISSUER, PORTAL_JWT_SECRET, PORTAL_COOKIE_NAME: cookieName }),
    );
  });

  const statusTriggers: Record<number, (path: string) => Promise<CheckedResponse>> = {
    200: (path) => api.get(path, userId),
    401: (path) => api.get(path),
    403: (path) => api.get(path, randomUUID()),
    // The statement fails, because a column that it uses has been renamed.
    500: async (path) => {
      const { admin } = api.database;
      await admin.query(`ALTER TABLE ${READ_MODEL_SCHEMA}.membership RENAME COLUMN role TO other`);
      try {
        return await api.get(path, userId);
      } finally {
        await admin.query(`ALTER TABLE ${READ_MODEL_SCHEMA}.membership RENAME COLUMN other TO role`);
      }
    },
    503: async (path) =>
      request(serviceWithoutServers.url + path, { Cookie: await api.provider.createSessionCookie(userId) }),
  };

  for (const documentedOperation of checker.operations) {
    const { operationId, path, operation } = documentedOperation;
    describe(operationId, () => {
      it(`the tests provoke exactly the documented statuses of the portal operation ${operationId}`, () => {
        expect(Object.keys(operation.responses)).to.have.members(Object.keys(statusTriggers));
      });

      for (const [status, sendRequest] of Object.entries(statusTriggers))
        it(`the portal operation ${operationId} returns ${status} as documented`, async () => {
          const response = await sendRequest(path);
          expect(response.status, JSON.stringify(response.body)).to.equal(Number(status));
          checker.checkResponse(documentedOperation, response);
        });
    });
  }
});
