import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { commands } from "../../../../command/cli/commands/commands.ts";
import { createLineIds, parseLine } from "../../../../command/cli/import/import-line.ts";
import { issueCredential } from "../../../../command/operations/application-operations.ts";
import { confirmAppointment, requestAppointment } from "../../../../command/operations/appointment-operations.ts";
import { registerEndpoint } from "../../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../../shared/auth/secret-box.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../../shared/eventstore/log.ts";
import { operatorContext } from "../../../support/partner.ts";
import { testServers } from "../../../support/stack.ts";
import { runClinic as run } from "../terminal.ts";

type Line = Record<string, unknown> & { command: string };

const instantInDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

const importableCommands = commands.filter((command) => command.isImportable);

/**
 * Creates lines with every command that can be imported. Some lines occur twice. The second occurrence changes nothing.
 */
function createLinesOfAllCommands(
  ids: Record<"clinic" | "application" | "credential" | "endpoint" | "missed" | "auditor", string>,
): Line[] {
  const { clinic, application, credential, endpoint, missed, auditor } = ids;
  const [branch, branch2, membership, user, staff, customer, animal] = Array.from({ length: 7 }, randomUUID);
  const [service, resource, resource2, rule, appointment, cancelled] = Array.from({ length: 6 }, randomUUID);
  const [assignment, hold, second] = Array.from({ length: 3 }, randomUUID);
  const tickets = Array.from({ length: 3 }, () => randomUUID());
  const rights = { role: "owner", permissions: ["manage_tenant"] };
  const time = { scheduledAt: instantInDays(3), durationMinutes: 30 };
  const register = { command: "customer register", id: customer, clinic, fullName: "Ada Example" };
  const ruled = { command: "rule set", id: rule, clinic, resource, weekday: 1 };
  const hours = { startsAt: "08:00:00", endsAt: "18:00:00" };
  const allocate = { command: "appointment allocate", id: appointment, clinic, assignment, resource };
  const until = new Date(Date.parse(time.scheduledAt) + 1_800_000).toISOString();
  const open = { command: "branch open", id: branch, clinic, name: "Old Town" };
  const subscribe = { command: "clinic subscribe", id: clinic, plan: "professional", status: "active" };
  const entitle = { command: "clinic entitle", id: clinic, key: "scheduling.advanced" };
  const ticket = (index: number) => ({ id: tickets[index], clinic });
  const installation = { application, clinic };
  return [
    subscribe,
    entitle,
    { command: "clinic suspend", id: clinic, reason: "Invoice overdue" },
    { command: "clinic reinstate", id: clinic },
    open,
    { command: "branch open", id: branch2, clinic, name: "New Town" },
    { command: "membership grant", id: membership, clinic, user, ...rights },
    { command: "membership accept", id: membership, clinic },
    { command: "user select", user, clinic, branch },
    { command: "staff hire", id: staff, clinic, fullName: "Bo", role: "veterinarian" },
    { command: "staff deactivate", id: staff, clinic },
    { command: "staff reactivate", id: staff, clinic },
    register,
    { command: "customer change", id: customer, clinic, phone: "1" },
    { command: "customer change", id: customer, clinic, phone: "1", city: null },
    { command: "animal register", id: animal, clinic, customer, name: "Luna", species: "cat" },
    { command: "animal change", id: animal, clinic, name: "Luna II" },
    { command: "animal weigh", id: animal, clinic, weightKg: 4.2 },
    { command: "service offer", id: service, clinic, name: "Consultation", price: 60 },
    { command: "service reprice", id: service, clinic, price: 65 },
    { command: "service withdraw", id: service, clinic },
    { command: "service reinstate", id: service, clinic },
    { command: "resource add", id: resource, clinic, branch, type: "room", name: "Room 1" },
    { command: "resource add", id: resource2, clinic, branch, type: "room", name: "Room 2" },
    { ...ruled, ...hours },
    { command: "appointment request", id: appointment, clinic, branch, animal, ...time },
    { command: "appointment confirm", id: appointment, clinic },
    { command: "appointment reschedule", id: appointment, clinic, scheduledAt: instantInDays(4) },
    { ...allocate, from: time.scheduledAt, until },
    { command: "appointment release", id: appointment, clinic, assignment },
    { ...allocate, assignment: second, from: time.scheduledAt, until },
    { command: "appointment check-in", id: appointment, clinic },
    { command: "appointment wait", id: appointment, clinic },
    { command: "appointment start", id: appointment, clinic },
    { command: "appointment complete", id: appointment, clinic },
    { command: "appointment request", id: cancelled, clinic, branch, ...time },
    { command: "appointment cancel", id: cancelled, clinic },
    { command: "appointment no-show", id: missed, clinic },
    {
      ...{ command: "appointment import", id: randomUUID(), clinic, branch, animal },
      ...{ scheduledAt: "2024-03-01T09:00:00Z", status: "completed", resources: [resource2] },
    },
    {
      ...{ command: "hold place", id: hold, clinic, branch, resource: resource2 },
      ...{ startsAt: instantInDays(1), endsAt: instantInDays(2), expiresAt: instantInDays(1) },
    },
    { command: "hold release", id: hold, clinic },
    ...[0, 1, 2].map((index) => ({
      ...{ command: "ticket issue", ...ticket(index), branch, appointment, animal },
      ...{ number: `A${index}`, date: "2027-03-01" },
    })),
    { command: "ticket call", ...ticket(0) },
    { command: "ticket complete", ...ticket(0) },
    { command: "ticket cancel", ...ticket(1) },
    { command: "ticket no-show", ...ticket(2) },
    { command: "rule remove", id: rule, clinic, resource },
    { command: "resource retire", id: resource, clinic },
    { command: "resource retire", id: resource2, clinic },
    { command: "partner approve-origin", application, origin: "https://hooks.example.com" },
    { command: "partner withdraw-origin", application, origin: "https://hooks.example.com" },
    { command: "installation request", ...installation, scopes: ["clinic:read", "appointments:read"] },
    { command: "installation approve", ...installation, membership },
    { command: "installation narrow", ...installation, scopes: ["clinic:read"] },
    { command: "installation agree-rate", ...installation, rateLimit: 600 },
    { command: "endpoint disable", id: endpoint, application, clinic },
    { command: "endpoint enable", id: endpoint, application, clinic },
    { command: "endpoint revoke", id: endpoint, application, clinic },
    { command: "installation revoke", ...installation },
    { command: "partner revoke-credential", application, credential },
    { command: "auditor revoke", id: auditor },
    { command: "partner revoke", id: application },
    { command: "membership change", id: membership, clinic, ...rights, role: "manager" },
    { command: "membership revoke", id: membership, clinic },
    ...[open, subscribe, entitle].map((line) => ({ ...line })),
  ];
}

describe("a second import of a complete file", function () {
  this.timeout(60_000);
  let env: NodeJS.ProcessEnv;
  let log: EventLog;
  let close: () => Promise<void>;
  before(async () => {
    env = { EVENTSTORE_URL: (await testServers()).eventstoreUrl };
    const client = connectEventStore(env.EVENTSTORE_URL ?? "", "test");
    log = createEventLog(client);
    close = () => client.dispose();
  });
  after(() => close());

  const importing = async (lines: Line[]) => {
    const stdin = lines.map((line) => JSON.stringify(line)).join("\n");
    const { code, out, err } = await run(["import", "-", "--json"], { env, stdin });
    const totals = JSON.parse(out.at(-1) ?? "");
    return { code, failures: out.slice(0, -1), totals, err };
  };

  /** Registers the objects that the lines refer to, and an appointment in the past. Returns all lines of the import. */
  async function prepareLines(): Promise<{ clinicId: string; lines: Line[] }> {
    const [clinicId, application, missed] = [randomUUID(), randomUUID(), randomUUID()];
    const names = { slug: "again", name: "Again", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };
    const first = { command: "clinic register", id: clinicId, ...names };
    const branchId = randomUUID();
    const scopes = ["clinic:read", "appointments:read", "webhooks:write"];
    const partner = { id: application, name: "Planner", environment: "production", scopes };
    const before = [
      first,
      { command: "branch open", id: branchId, clinic: clinicId, name: "First" },
      { command: "partner register", ...partner },
      { ...partner, command: "partner register", id: randomUUID(), environment: "sandbox" },
    ];
    expect((await importing(before)).code).to.equal(0);
    const owner = { applicationId: application, clinicId, environment: "production" as const };
    const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
    const url = "https://hooks.example.com/a";
    const input = { owner, url, events: ["appointment.created" as const] };
    const { endpoint } = await registerEndpoint({ log, secretBox }, input, operatorContext());
    const when = { scheduledAt: "2026-01-02T09:00:00.000Z", durationMinutes: 30, reason: null, notes: null };
    const pastContext = operatorContext(Date.parse("2026-01-01T09:00:00Z"));
    await requestAppointment(log, { appointmentId: missed, clinicId, branchId, animalId: null, ...when }, pastContext);
    await confirmAppointment(log, { appointmentId: missed, clinicId }, pastContext);
    const credential = (await issueCredential(log, { applicationId: application }, pastContext)).credentialId;
    const auditor = randomUUID();
    await run(["auditor", "register", "--id", auditor, "--name", "Ada"], { env });
    const ids = { clinic: clinicId, application, credential, endpoint: endpoint.id, missed, auditor };
    const otherLines = createLinesOfAllCommands(ids);
    return { clinicId, lines: [...before, ...otherLines] };
  }

  const expectAllApplied = (lines: Line[], again: Awaited<ReturnType<typeof importing>>) => {
    expect(again.failures).to.deep.equal([]);
    expect(again.totals).to.include({ alreadyApplied: lines.length, applied: 0, failed: 0 });
    expect(again.code).to.equal(0);
  };

  it("a second import reports all lines as already applied, even if the clinic has been closed", async () => {
    const { clinicId, lines } = await prepareLines();
    const used = new Set(lines.map(({ command }) => command));
    const unused = importableCommands.map(({ noun, verb }) => `${noun} ${verb}`).filter((name) => !used.has(name));
    expect(unused).to.deep.equal(["clinic close"]);
    const first = await importing(lines);
    expect(first.failures).to.deep.equal([]);
    expect(first.code).to.equal(0);
    expectAllApplied(lines, await importing(lines));
    const closed = await run(["clinic", "close", "--id", clinicId, "--reason", "Given up"], { env });
    expect(closed.code).to.equal(0);
    expectAllApplied(lines, await importing(lines));
  });

  it("if the file itself closes the clinic, a second import reports all lines as already applied", async () => {
    const { clinicId, lines } = await prepareLines();
    const closing = [...lines, { command: "clinic close", id: clinicId, reason: "Given up" }];
    expect((await importing(closing)).failures).to.deep.equal([]);
    expectAllApplied(closing, await importing(closing));
  });

  it("an import refuses new lines for a closed clinic and reports the field `$.clinic`", async () => {
    const { clinicId, lines } = await prepareLines();
    expect((await importing(lines)).code).to.equal(0);
    await run(["clinic", "close", "--id", clinicId, "--reason", "Given up"], { env });
    const added = { command: "customer register", id: randomUUID(), clinic: clinicId, fullName: "Late" };
    const again = await importing([...lines, added]);
    expect(again.code).to.equal(3);
    expect(again.totals).to.include({ alreadyApplied: lines.length, refused: 1 });
    expect(again.failures.map((line) => JSON.parse(line))).to.deep.equal([
      {
        ...{ line: lines.length + 1, code: "clinic_closed" },
        problems: [{ field: "$.clinic", reason: "the clinic is closed" }],
      },
    ]);
  });

  it("an import finishes the interrupted registration of a sandbox application", async () => {
    const id = randomUUID();
    const application = { id, name: "Half", environment: "sandbox", scopes: ["clinic:read"] };
    const lines: Line[] = [{ command: "partner register", ...application }];
    const parsed = parseLine(JSON.stringify(lines[0]));
    if (!("prepared" in parsed)) throw new Error(parsed.reason);
    const stopping: EventLog = {
      ...log,
      append: (stream, ...rest) =>
        stream === parsed.prepared.stream ? Promise.reject(new Error("killed")) : log.append(stream, ...rest),
    };
    const context = { ...operatorContext(), causationId: createLineIds()(parsed.contentKey) };
    const stopped = await parsed.prepared.run(stopping, context).catch((error: Error) => error.message);
    expect(stopped).to.equal("killed");
    const again = await importing(lines);
    expect(again.totals, again.failures.join()).to.include({ applied: 1 });
    expect(await log.read(parsed.prepared.stream)).to.have.length(1);
  });
});
