import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import pg from "pg";
import { registerAuditor } from "../../../command/operations/auditor-operations.ts";
import { changeCustomer, registerCustomer } from "../../../command/operations/people-operations.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { createTestDataKeys } from "../../support/data-keys.ts";
import { createClinic, createTestOperatorContext } from "../../support/partner.ts";
import { runAuditCommand } from "./cli-terminal.ts";
import { type AuditWorld, requestAudit, startAuditWorld, type TestAuditor } from "./world.ts";

describe("encrypted events in the audit API", () => {
  let world: AuditWorld;
  let client: EventStoreDBClient;
  let pool: pg.Pool;
  let dataKeys: DataKeys;
  let auditor: TestAuditor;
  let clinicId: string;
  let customerId: string;
  let stream: string;

  before(async () => {
    world = await startAuditWorld();
    client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    pool = new pg.Pool({ connectionString: world.database.urls.command, max: 1 });
    dataKeys = createTestDataKeys(pool);
    ({ clinicId } = await createClinic(world.log, "production"));
    customerId = await registerRenamedCustomer();
    stream = `customer-${customerId}`;
    auditor = await world.registerAuditor([clinicId]);
  });
  after(async () => {
    await Promise.all([client.dispose(), pool.end()]);
    await world.stop();
  });

  async function registerRenamedCustomer(): Promise<string> {
    const log = createEventLog(client, { dataKeys });
    const id = randomUUID();
    const contact = { fullName: "Ana Kos", phone: null, email: "ana@example.com", city: null };
    await registerCustomer(log, { clinicId, customerId: id, ...contact }, createTestOperatorContext());
    const change = { clinicId, customerId: id, details: { fullName: "Ana Novak" } };
    await changeCustomer(log, change, createTestOperatorContext());
    return id;
  }
  const readNames = async (path: string) =>
    (await auditor.request(path)).lines.map(({ data, erased }) => [data.fullName, erased]);
  const readState = async () => (await auditor.request(`/audit/v1/state?stream=${stream}`)).body.state.details;
  const readExport = async () => (await auditor.request(`/audit/v1/export?clinic=${clinicId}`)).text;
  const getEventLines = (text: string, name: string) =>
    text
      .split("\n")
      .filter((line) => line.includes(`"stream":"${name}"`))
      .map((line) => JSON.parse(line).event);

  it("lists, states, replays and the command line show personal data, and exports contain the stored form", async () => {
    expect(await readNames(`/audit/v1/events?stream=${stream}`)).to.deep.equal([
      ["Ana Kos", undefined],
      ["Ana Novak", undefined],
    ]);
    expect(await readState()).to.include({ fullName: "Ana Novak", email: "ana@example.com" });
    const { lines: steps } = await auditor.request(`/audit/v1/replay?stream=${stream}`);
    expect(steps[1].changes).to.deep.include({ path: "details.fullName", before: "Ana Kos", after: "Ana Novak" });
    const { output } = await runAuditCommand(["as-of", stream, "--json"], { env: world.env });
    expect(JSON.parse(output).state.details.fullName).to.equal("Ana Novak");
    const exportText = await readExport();
    expect(getEventLines(exportText, stream)).to.have.length(2);
    expect(exportText)
      .to.contain('"encrypted":{')
      .and.not.to.match(/Ana|example\.com/);
  });

  it("after an erasure, lists and states show neutral values with a mark, and an export has the same event lines", async () => {
    const erasedId = await registerRenamedCustomer();
    const linesBefore = getEventLines(await readExport(), `customer-${erasedId}`);
    await dataKeys.destroy({ type: "customer", id: erasedId });
    const { lines } = await auditor.request(`/audit/v1/events?stream=customer-${erasedId}`);
    expect(lines.map(({ data, erased }) => [data.fullName, data.email, erased])).to.deep.equal([
      ["(erased)", null, true],
      ["(erased)", null, true],
    ]);
    const { output } = await runAuditCommand(["as-of", `customer-${erasedId}`, "--json"], {
      env: world.env,
    });
    expect(JSON.parse(output).state.details).to.include({ fullName: "(erased)", email: null });
    expect(linesBefore).to.have.length(2);
    expect(getEventLines(await readExport(), `customer-${erasedId}`)).to.deep.equal(linesBefore);
  });

  it("a list of accesses shows the encrypted name of an auditor", async () => {
    const input = { auditorId: randomUUID(), name: "Ines Auditor", clinicIds: [clinicId], expiresAt: null };
    const { credential } = await registerAuditor(
      createEventLog(client, { dataKeys }),
      input,
      createTestOperatorContext(),
    );
    const path = `${world.url}/audit/v1/accesses?clinic=${clinicId}`;
    const { lines } = await requestAudit(path, { Authorization: `Bearer ${credential}` });
    expect(lines.at(-1)).to.include({ action: "accesses", auditorName: "Ines Auditor" });
  });
});
