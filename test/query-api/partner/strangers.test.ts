import { expect } from "chai";
import { revokeApplication } from "../../../command/operations/application-operations.ts";
import { agreeRateLimit, revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { scopes } from "../../../shared/domain/events/partner.ts";
import { openDatabase } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createClinic,
  createTestOperatorContext,
  installApplication,
  sendTokenRequest,
  type TestClinic,
} from "../../support/partner.ts";
import { type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { everyOperation, listStrangerRequests, type Strangers } from "../docs/every-operation.ts";
import {
  createDeliveryFactory,
  createSandboxPartner,
  type PartnerContractWorld,
  type SandboxPartner,
} from "../docs/partner-world.ts";
import { send } from "../docs/sandbox-request.ts";

const context = createTestOperatorContext();

/** Sends requests of each stranger to every operation of the partner API. */
describe("strangers", () => {
  let api: PartnerApi;
  let owner: SandboxPartner;
  let world: PartnerContractWorld;
  let strangers: Omit<Strangers, "otherClinicId">;
  let clinic: TestClinic;

  before(async () => {
    api = await startPartnerApi();
    const admin = openDatabase(api.database.urls.projection);
    const { log } = api.command;
    owner = await createSandboxPartner(api);
    const [other, neighbour, revoked] = [
      await createSandboxPartner(api),
      await createSandboxPartner(api),
      await createSandboxPartner(api),
    ];
    clinic = await createClinic(log, "sandbox");
    for (const application of [owner, other, neighbour]) await installApplication(log, application, clinic);
    await agreeRateLimit(log, { ...owner, rateLimitPerMinute: 10_000 }, context);
    const installation = { applicationId: other.applicationId, clinicId: clinic.clinicId };
    await revokeInstallation(log, { ...installation, reason: null }, context);
    await revokeApplication(log, { applicationId: revoked.applicationId, reason: null }, context);
    const exchange = async (scope: string) => {
      const { body } = await sendTokenRequest(api.command.url, owner, { scope });
      return [scope, { Authorization: `Bearer ${body.access_token}` }] as const;
    };
    const narrow = new Map(await Promise.all(scopes.map(exchange)));
    strangers = {
      otherApplication: other.headers,
      revokedInstallation: { ...other.headers, "X-SERVICE-Clinic-ID": clinic.clinicId },
      neighbour: neighbour.headers,
      revokedApplication: revoked.headers,
      otherEnvironment: (await api.createPartner("production")).headers,
      withoutScope: (scope) => narrow.get(scopes.find((name) => name !== scope) ?? "") ?? {},
    };
    world = {
      origins: { queryOrigin: api.queryUrl, commandOrigin: api.command.url },
      unrestrictedPartner: owner,
      createPartner: async () => owner,
      createFailedDelivery: createDeliveryFactory(admin),
    } as PartnerContractWorld;
    const headers = { ...owner.headers, "X-SERVICE-Clinic-ID": clinic.clinicId };
    await eventually("the last changes in the read models", async () => {
      const own = await send(world.origins, { method: "GET", path: "/clinic/context", headers });
      const requests = [strangers.revokedInstallation, strangers.revokedApplication].map((strangerHeaders) =>
        send(world.origins, { method: "GET", path: "/clinic/context", headers: { ...headers, ...strangerHeaders } }),
      );
      const [installed, application] = await Promise.all(requests);
      return own.status === 200 && installed?.status === 403 && application?.status === 401;
    });
  });
  // The code of the sandbox links an animal once after each reset.
  beforeEach(async () => {
    await owner.request("POST", "/sandbox/access", { body: { animalAccess: "all", branchIds: null } });
    await owner.request("POST", "/sandbox/reset");
  });

  for (const { name, operation, createRequest } of everyOperation) {
    it(`${name} refuses all strangers, and then succeeds for its owner`, async () => {
      // An application can send few requests that name no clinic.
      const { requiresClinic, requiresSandbox } = operation;
      const isSandbox = requiresSandbox || /^\/(animal-links|slots)/.test(operation.path);
      const sandboxPartner = requiresClinic || requiresSandbox ? owner : await createSandboxPartner(api);
      const partner = isSandbox || !requiresClinic ? sandboxPartner : { ...owner, ...clinic };
      const valid = await createRequest(partner, { ...world, unrestrictedPartner: partner });
      const sendValid = () =>
        eventually("the object", async () => {
          const response = await send(world.origins, valid);
          return response.status !== 503 && (operation.method !== "GET" || response.status !== 404) && response;
        });
      // A read that does not know the object yet would refuse strangers anyway.
      if (operation.method === "GET") await sendValid();
      const requests = listStrangerRequests(operation, valid, {
        ...strangers,
        otherClinicId: isSandbox ? clinic.clinicId : sandboxPartner.clinicId,
      });
      for (const { stranger, request, refusal } of requests) {
        const { status, body } = await send(world.origins, request);
        expect(`${status} ${body.error}`, `a request ${stranger}`).to.equal(refusal);
      }
      const { status, text } = await sendValid();
      expect(status, text).to.be.within(200, 299);
    });
  }
});
