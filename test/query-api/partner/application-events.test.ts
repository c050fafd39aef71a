import { expect } from "chai";
import { createLinkCode, redeemLinkCode, withdrawLink } from "../../../command/operations/animal-link-operations.ts";
import { closeClinic } from "../../../command/operations/clinic-operations.ts";
import { narrowInstallation, revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import { MAX_APPLICATION_REQUESTS_PER_MINUTE } from "../../../shared/partner-api/rate-limits.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createApplication,
  createClinic,
  createPartnerWorld,
  createTestOperatorContext,
  installApplication,
  type PartnerWorld,
  sendRequest,
  sendTokenRequest,
} from "../../support/partner.ts";
import { type PartnerApi, startPartnerApi, withQuarantinedStream } from "../../support/partner-api.ts";

interface ApplicationEvent {
  id: string;
  type: string;
  clinicId: string;
  environment: string;
  data: Record<string, unknown>;
}

describe("the feed of an application", () => {
  let api: PartnerApi;
  let world: PartnerWorld;

  before(async () => {
    api = await startPartnerApi();
  });
  after(() => api.stop());
  beforeEach(async () => {
    world = await createPartnerWorld(api.command);
    await awaitEvents(1);
  });

  const context = createTestOperatorContext();
  const authorize = (token: string) => ({ Authorization: `Bearer ${token}` });
  const list = (query = "", { token, environment } = world, headers: Record<string, string> = {}) =>
    sendRequest("GET", `${api.queryUrl}/${environment}/v1/events?${query}`, { ...authorize(token), ...headers });

  async function listEvents(query = "", partner = world): Promise<{ events: ApplicationEvent[]; cursor: string }> {
    const { status, body, text } = await list(query, partner);
    expect(status, text).to.equal(200);
    return body;
  }

  const awaitEvents = (count: number, query = "", partner = world) =>
    eventually(`${count} events`, async () => {
      const page = await listEvents(query, partner);
      return page.events.length >= count && page;
    });

  const revoke = ({ applicationId } = world, { clinicId }: Pick<PartnerWorld, "clinicId"> = world) =>
    revokeInstallation(api.command.log, { applicationId, clinicId, reason: null }, context);

  it("the feed reports the access at all clinics in order, also of clinics that revoked it or are closed", async () => {
    const { applicationId, clinicId, branchId } = world;
    const closedClinic = await createClinic(api.command.log);
    await installApplication(api.command.log, world, closedClinic);
    await narrowInstallation(api.command.log, { applicationId, clinicId, branchIds: [branchId] }, context);
    await revoke();
    await closeClinic(api.command.log, { clinicId: closedClinic.clinicId, reason: "moved" }, context);
    await revoke(world, closedClinic);
    const { events } = await awaitEvents(5);
    expect(events.map((event) => [event.type, event.clinicId])).to.deep.equal([
      ["installation.approved", clinicId],
      ["installation.approved", closedClinic.clinicId],
      ["installation.access_changed", clinicId],
      ["installation.revoked", clinicId],
      ["installation.revoked", closedClinic.clinicId],
    ]);
    expect(events[2]?.data).to.have.nested.property("installation.branchIds").deep.equal([branchId]);
    expect(events[3]).to.deep.include({ environment: "production", data: { installation: null } });
    expect((await list("", world, { "X-SERVICE-Clinic-ID": clinicId })).body.error).to.equal("installation_denied");
  });

  it("the pages of the feed contain each event once", async () => {
    await revoke();
    const all = await awaitEvents(2);
    const first = (await list("limit=1")).body;
    const second = (await list(`limit=1&after=${first.cursor}`)).body;
    expect([first.hasMore, second.hasMore]).to.deep.equal([true, false]);
    expect([...first.events, ...second.events]).to.deep.equal(all.events);
    const latest = { events: [], cursor: all.cursor, hasMore: false };
    expect(await listEvents("after=latest")).to.deep.include(latest);
    expect(await listEvents(`after=${all.cursor}`)).to.deep.include(latest);
  });

  it("the feed reports the withdrawal of a link, but no new link and no appointment", async () => {
    const { applicationId, clinicId, animalId } = world;
    const services = { log: api.command.log, linkCodes: createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS)) };
    const owner = { applicationId, clinicId };
    const codeRequest = { ...owner, animalId, covers: "appointments_read" as const, validityMs: 3_600_000 };
    const { code } = await createLinkCode(services, codeRequest, context);
    const partnerContext = { ...context, clinicId, environment: world.environment };
    const { link } = await redeemLinkCode(services, { ...owner, code, sandbox: null }, partnerContext);
    await withdrawLink(api.command.log, { ...owner, animalId, requestedBy: "owner" }, context);
    const { events } = await awaitEvents(2);
    expect(events.map(({ type }) => type)).to.deep.equal(["installation.approved", "animal_link.withdrawn"]);
    expect(events[1]?.data).to.deep.equal({ link: { id: link.linkId, animalId } });
  });

  it("an application gets no events of other applications or of the other environment", async () => {
    const { cursor } = await listEvents();
    const stranger = await createApplication(api.command.log);
    await installApplication(api.command.log, stranger, world);
    const { body } = await sendTokenRequest(api.command.url, stranger);
    const strangerWorld = { ...world, ...stranger, token: body.access_token };
    const sandboxWorld = await createPartnerWorld(api.command, "sandbox");
    await revoke();
    await awaitEvents(2);
    const own = await awaitEvents(1, "", strangerWorld);
    expect(own.events.map(({ type }) => type)).to.deep.equal(["installation.approved"]);
    const sandbox = await awaitEvents(2, "", sandboxWorld);
    const ownSandboxId = deriveSandboxClinicId(sandboxWorld.applicationId);
    expect(sandbox.events.map(({ clinicId }) => clinicId)).to.have.members([sandboxWorld.clinicId, ownSandboxId]);
    expect(new Set(sandbox.events.map(({ environment }) => environment))).to.deep.equal(new Set(["sandbox"]));
    for (const partner of [strangerWorld, sandboxWorld])
      expect((await list(`after=${cursor}`, partner)).body.error).to.equal("unknown_cursor");
    expect((await list("", { ...world, environment: "sandbox" })).status).to.equal(401);
  });

  it("a request waits for the next event of its application, and not for those of others", async () => {
    const { cursor } = await listEvents();
    const stranger = await createPartnerWorld(api.command);
    const waiting = list(`after=${cursor}&wait=25`);
    await eventually("the wait", async () => (await readWaitCount(api.queryUrl)) === 1);
    await revoke(stranger, stranger);
    await awaitEvents(2, "", stranger);
    expect(await readWaitCount(api.queryUrl)).to.equal(1);
    await revoke();
    const { status, body } = await waiting;
    expect([status, body.events.map(({ type }: ApplicationEvent) => type)]).to.deep.equal([
      200,
      ["installation.revoked"],
    ]);
  });

  it("a request with an invalid cursor, only a branch header, no token or a narrow token is refused", async () => {
    const narrow = await sendTokenRequest(api.command.url, world, { scope: "clinic:read" });
    const refusals = [
      await list("after=x"),
      await list("", world, { "X-SERVICE-Branch-ID": world.branchId }),
      await list("", world, { "X-SERVICE-Clinic-ID": "" }),
      await list("", world, { Authorization: "" }),
      await list("", { ...world, token: narrow.body.access_token }),
    ];
    expect(refusals.map(({ status, body }) => `${status} ${body.error}`)).to.deep.equal([
      "400 invalid_cursor",
      "403 clinic_header_invalid",
      "403 clinic_header_invalid",
      "401 missing_token",
      "403 insufficient_scope",
    ]);
  });

  it("cursors that a quarantine precedes stay valid, and cursors from its time return 422 after its end", async () => {
    const { cursor } = await listEvents();
    let quarantineCursor = "";
    await withQuarantinedStream(api.database, "installation-1", world.clinicId, async () => {
      expect((await list(`after=${cursor}`)).body.cursor).to.equal(cursor);
      quarantineCursor = (await listEvents()).cursor;
      expect((await list(`after=${quarantineCursor}`)).status).to.equal(200);
    });
    expect((await list(`after=${quarantineCursor}`)).body.error).to.equal("unknown_cursor");
    expect((await list(`after=${cursor}`)).status).to.equal(200);
  });

  it("requests without the clinic header have a limit of their own", async () => {
    const statuses = new Set<number>();
    for (let count = 0; count <= MAX_APPLICATION_REQUESTS_PER_MINUTE; count += 1) statuses.add((await list()).status);
    expect([...statuses]).to.deep.equal([200, 429]);
    expect((await list("", world, { "X-SERVICE-Clinic-ID": world.clinicId })).status).to.equal(200);
  });
});

/** Reads the number of waiting requests from the metrics. */
async function readWaitCount(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^partner_waiting_requests (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
}
