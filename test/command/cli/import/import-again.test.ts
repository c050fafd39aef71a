import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { domainCommands } from "../../../../command/cli/commands/domain-commands.ts";
import { createLineIdGenerator, parseLine } from "../../../../command/cli/import/import-line.ts";
import { handle } from "../../../../command/handling/handle.ts";
import { issueCredential } from "../../../../command/operations/application-operations.ts";
import { confirmAppointment, requestAppointment } from "../../../../command/operations/appointment-operations.ts";
import { registerEndpoint } from "../../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../../shared/auth/secret-box.ts";
import { animalConsentAggregate, decideCreateLinkCode } from "../../../../shared/domain/clinic/animal-consent.ts";
import { toInstant } from "../../../../shared/domain/time/rfc3339.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import type { EventLog } from "../../../../shared/eventstore/log.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getTestServers } from "../../../support/stack.ts";
import { runClinic as run } from "../terminal.ts";

type Line = Record<string, unknown> & { command: string };

const toInstantInDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

const importableCommands = domainCommands.filter((command) => command.isImportable);

/**
 * Creates lines with every command that can be imported. Some lines occur twice. The second occurrence changes nothing.
 */
function createLinesOfAllCommands(
  ids: Record<"clinic" | "application" | "credential" | "endpoint" | "missed" | "auditor" | "linkedAnimal", string>,
): Line[] {
  const { clinic, application, credential, endpoint, missed: missedAppointment, auditor, linkedAnimal } = ids;
  const [branch, secondBranch, membership, user, staff, customer, animal] = Array.from({ length: 7 }, randomUUID);
  const [service, resource, secondResource, rule, appointment, cancelledAppointment] = Array.from(
    { length: 6 },
    randomUUID,
  );
  const [assignment, hold, secondAssignment] = Array.from({ length: 3 }, randomUUID);
  const tickets = Array.from({ length: 3 }, () => randomUUID());
  const ownerRights = { role: "owner", permissions: ["manage_tenant"] };
  const schedule = { scheduledAt: toInstantInDays(3), durationMinutes: 30 };
  const registerLine = { command: "customer register", id: customer, clinic, fullName: "Ada Example" };
  const ruleLine = { command: "rule set", id: rule, clinic, resource, weekday: 1 };
  const openingHours = { startsAt: "08:00:00", endsAt: "18:00:00" };
  const allocateLine = { command: "appointment allocate", id: appointment, clinic, assignment, resource };
  const endsAt = new Date(Date.parse(schedule.scheduledAt) + 1_800_000).toISOString();
  const openLine = { command: "branch open", id: branch, clinic, name: "Old Town" };
  const subscribeLine = { command: "clinic subscribe", id: clinic, plan: "professional", status: "active" };
  const entitleLine = { command: "clinic entitle", id: clinic, key: "scheduling.advanced" };
  const getTicketFields = (index: number) => ({ id: tickets[index], clinic });
  const installationFields = { application, clinic };
  return [
    subscribeLine,
    entitleLine,
    { command: "retention set", clinic, category: "notes", months: 60 },
    { command: "retention remove", clinic, category: "contact" },
    { command: "clinic suspend", id: clinic, reason: "Invoice overdue" },
    { command: "clinic reinstate", id: clinic },
    openLine,
    { command: "branch open", id: secondBranch, clinic, name: "New Town" },
    { command: "membership grant", id: membership, clinic, user, ...ownerRights },
    { command: "membership accept", id: membership, clinic },
    { command: "user select", user, clinic, branch },
    { command: "staff hire", id: staff, clinic, fullName: "Bo", role: "veterinarian" },
    { command: "staff deactivate", id: staff, clinic },
    { command: "staff reactivate", id: staff, clinic },
    registerLine,
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
    { command: "resource add", id: secondResource, clinic, branch, type: "room", name: "Room 2" },
    { ...ruleLine, ...openingHours },
    { command: "appointment request", id: appointment, clinic, branch, animal, ...schedule },
    { command: "appointment confirm", id: appointment, clinic },
    { command: "appointment reschedule", id: appointment, clinic, scheduledAt: toInstantInDays(4) },
    { ...allocateLine, from: schedule.scheduledAt, until: endsAt },
    { command: "appointment release", id: appointment, clinic, assignment },
    { ...allocateLine, assignment: secondAssignment, from: schedule.scheduledAt, until: endsAt },
    { command: "appointment check-in", id: appointment, clinic },
    { command: "appointment wait", id: appointment, clinic },
    { command: "appointment start", id: appointment, clinic },
    { command: "appointment complete", id: appointment, clinic },
    { command: "appointment request", id: cancelledAppointment, clinic, branch, ...schedule },
    { command: "appointment cancel", id: cancelledAppointment, clinic },
    { command: "appointment no-show", id: missedAppointment, clinic },
    {
      command: "appointment import",
      id: randomUUID(),
      clinic,
      branch,
      animal,
      scheduledAt: "2024-03-01T09:00:00Z",
      status: "completed",
      resources: [secondResource],
    },
    {
      command: "hold place",
      id: hold,
      clinic,
      branch,
      resource: secondResource,
      startsAt: toInstantInDays(1),
      endsAt: toInstantInDays(2),
      expiresAt: toInstantInDays(1),
    },
    { command: "hold release", id: hold, clinic },
    ...[0, 1, 2].map((index) => ({
      command: "ticket issue",
      ...getTicketFields(index),
      branch,
      appointment,
      animal,
      number: `A${index}`,
      date: "2027-03-01",
    })),
    { command: "ticket call", ...getTicketFields(0) },
    { command: "ticket complete", ...getTicketFields(0) },
    { command: "ticket cancel", ...getTicketFields(1) },
    { command: "ticket no-show", ...getTicketFields(2) },
    { command: "rule remove", id: rule, clinic, resource },
    { command: "resource retire", id: resource, clinic },
    { command: "resource retire", id: secondResource, clinic },
    { command: "partner approve-origin", application, origin: "https://hooks.example.com" },
    { command: "partner withdraw-origin", application, origin: "https://hooks.example.com" },
    { command: "installation request", ...installationFields, scopes: ["clinic:read", "appointments:read"] },
    { command: "installation approve", ...installationFields, membership, animalAccess: "all" },
    { command: "installation narrow", ...installationFields, scopes: ["clinic:read"] },
    { command: "installation agree-rate", ...installationFields, rateLimit: 600 },
    { command: "endpoint disable", id: endpoint, application, clinic },
    { command: "endpoint enable", id: endpoint, application, clinic },
    { command: "endpoint revoke", id: endpoint, application, clinic },
    { command: "animal link withdraw", ...installationFields, animal: linkedAnimal, requestedBy: "owner" },
    { command: "installation revoke", ...installationFields },
    { command: "partner revoke-credential", application, credential },
    { command: "auditor revoke", id: auditor },
    { command: "partner revoke", id: application },
    { command: "membership change", id: membership, clinic, ...ownerRights, role: "manager" },
    { command: "membership revoke", id: membership, clinic },
    ...[openLine, subscribeLine, entitleLine].map((line) => ({ ...line })),
  ];
}

describe("a second import of a complete file", function () {
  this.timeout(60_000);
  let env: NodeJS.ProcessEnv;
  let log: EventLog;
  let close: () => Promise<void>;
  before(async () => {
    env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
    const client = connectEventStore(env.EVENTSTORE_URL ?? "", "test");
    log = createPlainLog(client);
    close = () => client.dispose();
  });
  after(() => close());

  const importLines = async (lines: Line[]) => {
    const stdin = lines.map((line) => JSON.stringify(line)).join("\n");
    const { code, outputLines: out, errorLines: err } = await run(["import", "-", "--json"], { env, stdin });
    const totals = JSON.parse(out.at(-1) ?? "");
    return { code, failures: out.slice(0, -1), totals, err };
  };

  /** Registers the objects that the lines refer to, and an appointment in the past. Returns all lines of the import. */
  async function prepareLines(): Promise<{ clinicId: string; lines: Line[] }> {
    const [clinicId, application, missedAppointment] = [randomUUID(), randomUUID(), randomUUID()];
    const clinicFields = { slug: "again", name: "Again", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };
    const registerLine = { command: "clinic register", id: clinicId, ...clinicFields };
    const branchId = randomUUID();
    const scopes = ["clinic:read", "appointments:read", "webhooks:write"];
    const partnerFields = { id: application, name: "Planner", environment: "production", scopes };
    const firstLines = [
      registerLine,
      { command: "branch open", id: branchId, clinic: clinicId, name: "First" },
      { command: "partner register", ...partnerFields },
      { ...partnerFields, command: "partner register", id: randomUUID(), environment: "sandbox" },
    ];
    expect((await importLines(firstLines)).code).to.equal(0);
    const owner = { applicationId: application, clinicId, environment: "production" as const };
    const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
    const url = "https://hooks.example.com/a";
    const input = { owner, url, events: ["appointment.created" as const] };
    const { endpoint } = await registerEndpoint({ log, secretBox }, input, createTestOperatorContext());
    const appointmentDetails = {
      scheduledAt: "2026-01-02T09:00:00.000Z",
      durationMinutes: 30,
      reason: null,
      notes: null,
    };
    const pastContext = createTestOperatorContext(Date.parse("2026-01-01T09:00:00Z"));
    await requestAppointment(
      log,
      { appointmentId: missedAppointment, clinicId, branchId, animalId: null, ...appointmentDetails },
      pastContext,
    );
    await confirmAppointment(log, { appointmentId: missedAppointment, clinicId }, pastContext);
    const credential = (await issueCredential(log, { applicationId: application }, pastContext)).credentialId;
    const auditor = randomUUID();
    await run(["auditor", "register", "--id", auditor, "--name", "Ada"], { env });
    const linkedAnimal = randomUUID();
    const decide = decideCreateLinkCode(
      {
        ...{ animalId: linkedAnimal, clinicId, applicationId: application, linkId: randomUUID() },
        ...{ covers: "appointments_read", expiresAt: toInstant(Date.now() + 3_600_000) },
      },
      Date.now(),
    );
    await handle(log, animalConsentAggregate, linkedAnimal, decide, { ...createTestOperatorContext(), clinicId });
    const ids = {
      clinic: clinicId,
      application,
      credential,
      endpoint: endpoint.id,
      missed: missedAppointment,
      auditor,
      linkedAnimal,
    };
    const otherLines = createLinesOfAllCommands(ids);
    return { clinicId, lines: [...firstLines, ...otherLines] };
  }

  const expectAllApplied = (lines: Line[], importResult: Awaited<ReturnType<typeof importLines>>) => {
    expect(importResult.failures).to.deep.equal([]);
    expect(importResult.totals).to.include({ alreadyApplied: lines.length, applied: 0, failed: 0 });
    expect(importResult.code).to.equal(0);
  };

  it("after the clinic was closed, a second import reports all lines as already applied, and refuses only new lines", async () => {
    const { clinicId, lines } = await prepareLines();
    const usedCommands = new Set(lines.map(({ command }) => command));
    const unusedCommands = importableCommands.map(({ name }) => name).filter((name) => !usedCommands.has(name));
    expect(unusedCommands).to.deep.equal(["clinic close"]);
    const firstImport = await importLines(lines);
    expect(firstImport.failures).to.deep.equal([]);
    expect(firstImport.code).to.equal(0);
    expectAllApplied(lines, await importLines(lines));
    const closeResult = await run(["clinic", "close", "--id", clinicId, "--reason", "Given up"], { env });
    expect(closeResult.code).to.equal(0);
    const newLine = { command: "customer register", id: randomUUID(), clinic: clinicId, fullName: "Late" };
    const { code, totals, failures } = await importLines([...lines, newLine]);
    expect(code).to.equal(3);
    expect(totals).to.include({ alreadyApplied: lines.length, applied: 0, refused: 1, failed: 1 });
    const problems = [{ field: "$.clinic", reason: "the clinic is closed" }];
    expect(failures.map((line) => JSON.parse(line))).to.deep.equal([
      { line: lines.length + 1, code: "clinic_closed", problems },
    ]);
  });

  it("if the file itself closes the clinic, a second import reports all lines as already applied", async () => {
    const { clinicId, lines } = await prepareLines();
    const closingLines = [...lines, { command: "clinic close", id: clinicId, reason: "Given up" }];
    expect((await importLines(closingLines)).failures).to.deep.equal([]);
    expectAllApplied(closingLines, await importLines(closingLines));
  });

  it("an import finishes the interrupted registration of a sandbox application", async () => {
    const id = randomUUID();
    const application = { id, name: "Half", environment: "sandbox", scopes: ["clinic:read"] };
    const lines: Line[] = [{ command: "partner register", ...application }];
    const text = JSON.stringify(lines[0]);
    const parsedLine = parseLine(text);
    if (!("preparedCommand" in parsedLine)) throw new Error(parsedLine.reason);
    const failingLog: EventLog = {
      ...log,
      append: (stream, ...restArgs) =>
        stream === parsedLine.preparedCommand.stream
          ? Promise.reject(new Error("killed"))
          : log.append(stream, ...restArgs),
    };
    const context = { ...createTestOperatorContext(), causationId: createLineIdGenerator()(text) ?? "" };
    const failureMessage = await parsedLine.preparedCommand
      .run(failingLog, context)
      .catch((error: Error) => error.message);
    expect(failureMessage).to.equal("killed");
    const secondImport = await importLines(lines);
    expect(secondImport.totals, secondImport.failures.join()).to.include({ applied: 1 });
    expect(await log.read(parsedLine.preparedCommand.stream)).to.have.length(1);
  });
});
