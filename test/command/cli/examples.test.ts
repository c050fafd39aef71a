import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { domainCommands } from "../../../command/cli/commands/domain-commands.ts";
import { createLinkCode } from "../../../command/operations/animal-link-operations.ts";
import { confirmAppointment, requestAppointment } from "../../../command/operations/appointment-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { registerEndpoint } from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { runClinic } from "./terminal.ts";

/** Commands in an order in which all of them succeed. An entry can contain options to add to the command's example. */
const COMMAND_SEQUENCE: [command: string, moreOptions?: string][] = [
  ["clinic register"],
  ["clinic subscribe"],
  ["clinic entitle"],
  ["clinic suspend"],
  ["clinic reinstate"],
  ["branch open"],
  ["membership grant"],
  ["membership accept"],
  ["user select"],
  ["staff hire"],
  ["staff deactivate"],
  ["staff reactivate"],
  ["customer register"],
  ["customer change"],
  ["animal register"],
  ["animal change"],
  ["animal weigh"],
  ["service offer"],
  ["service reprice"],
  ["service withdraw"],
  ["service reinstate"],
  ["resource add"],
  ["rule set"],
  ["rule remove"],
  ["appointment import"],
  ["appointment request"],
  ["appointment confirm"],
  ["appointment reschedule"],
  ["appointment allocate"],
  ["appointment release"],
  ["appointment check-in"],
  ["appointment wait"],
  ["appointment start"],
  ["appointment complete"],
  ["appointment request"],
  ["appointment cancel"],
  ["appointment no-show"],
  ["hold place"],
  ["hold release"],
  ["ticket issue"],
  ["ticket call"],
  ["ticket complete"],
  ["ticket issue"],
  ["ticket cancel"],
  ["ticket issue"],
  ["ticket no-show"],
  ["resource retire"],
  ["partner register", "--environment production"],
  ["partner issue-credential"],
  ["partner revoke-credential"],
  ["partner approve-origin"],
  ["partner withdraw-origin"],
  ["installation request"],
  ["installation approve"],
  ["animal link withdraw"],
  ["installation narrow"],
  ["installation agree-rate"],
  ["endpoint disable", "--environment production"],
  ["endpoint enable", "--environment production"],
  ["webhooks test"],
  ["endpoint revoke", "--environment production"],
  ["installation revoke"],
  ["partner revoke"],
  ["membership change"],
  ["membership revoke"],
  ["auditor register"],
  ["auditor revoke"],
  ["retention set"],
  ["retention remove"],
  ["clinic close"],
];

/** Splits an example into words. Replaces the year 2027 with next year, so that the times are in the future. */
function splitExample(example: string): string[] {
  const words = (example.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ""));
  return words.map((word) => word.replace(/^2027-/, `${new Date().getFullYear() + 1}-`));
}

describe("the examples of the operator's command line", () => {
  it("the examples of all commands succeed one after the other, with the ids that earlier commands printed", async () => {
    const env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
    // No command creates this id, because the identity provider creates the ids of users.
    const ids: Record<string, string> = { user: randomUUID() };
    for (const [name, options = ""] of COMMAND_SEQUENCE) {
      const command = domainCommands.find((command) => command.name === name);
      expect(command, name).to.not.equal(undefined);
      if (name === "endpoint disable") ids.endpoint = await registerTestEndpoint(env.EVENTSTORE_URL, ids);
      if (name === "animal link withdraw") await createTestLinkCode(env.EVENTSTORE_URL, ids);
      if (name === "appointment no-show") ids.appointment = await createMissedAppointment(env.EVENTSTORE_URL, ids);
      const { example } = command!;
      const [noun = ""] = name.split(" ");
      const entity = noun === "partner" ? "application" : noun;
      const words = splitExample(example).map((word, index, allWords) => {
        const option = allWords[index - 1]?.replace(/^--/, "") ?? "";
        return /^[0-9a-f]{8}-/.test(word) ? ids[option === "id" ? entity : option.replace(/s$/, "")]! : word;
      });
      const result = await runClinic([...name.split(" "), ...words, ...(options ? options.split(" ") : []), "--json"], {
        env,
      });
      expect([name, result.code, result.errorLines]).to.deep.equal([name, 0, []]);
      const { id, changed, assignment, credentialId } = JSON.parse(result.outputLines.join("\n"));
      expect([name, changed]).to.deep.equal([name, true]);
      Object.assign(ids, { [entity]: ids[entity] ?? id }, command!.options.id?.isGenerated && { [entity]: id });
      Object.assign(ids, assignment && { assignment }, credentialId && { credential: credentialId });
    }
  });

  it("the sequence of examples contains every command", () => {
    const coveredCommands = new Set(COMMAND_SEQUENCE.map(([name]) => name));
    expect(domainCommands.map(({ name }) => name).filter((name) => !coveredCommands.has(name))).to.eql([]);
  });

  it("`branch open` prints the id of the branch, not the id of the clinic", async () => {
    const env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
    const example = (name: string) => splitExample(domainCommands.find((command) => command.name === name)!.example);
    const registration = await runClinic(["clinic", "register", ...example("clinic register")], { env });
    const clinicId = registration.outputLines[0]!.slice(-36);
    const branchId = randomUUID();
    const openArgs = ["branch", "open", "--clinic", clinicId, "--name", "Old Town", "--id", branchId];
    expect((await runClinic(openArgs, { env })).outputLines).to.eql([`branch open: done, id ${branchId}`]);
  });
});

async function createTestLinkCode(url: string, ids: Record<string, string>): Promise<void> {
  const client = connectEventStore(url, "test");
  const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));
  const { animal: animalId = "", application: applicationId = "", clinic: clinicId = "" } = ids;
  const input = { animalId, applicationId, clinicId, covers: "appointments_read" as const, validityMs: 3_600_000 };
  await createLinkCode({ log: createPlainLog(client), linkCodes }, input, createTestOperatorContext());
  await client.dispose();
}

/** Creates a confirmed appointment in the past, which the command line cannot create. */
async function createMissedAppointment(url: string, { clinic: clinicId = "", branch: branchId = "" }): Promise<string> {
  const client = connectEventStore(url, "test");
  const [appointmentId, scheduledAt] = [randomUUID(), "2026-01-02T09:00:00.000Z"];
  const appointment = { appointmentId, clinicId, branchId, animalId: null, scheduledAt, durationMinutes: 30 };
  const context = createTestOperatorContext(Date.parse("2026-01-01T09:00:00Z"));
  const log = createPlainLog(client);
  await requestAppointment(log, { ...appointment, reason: null, notes: null }, context);
  await confirmAppointment(log, { appointmentId, clinicId }, context);
  await client.dispose();
  return appointmentId;
}

/** Registers an endpoint as a partner does, because the command line cannot register endpoints. */
async function registerTestEndpoint(url: string, { application = "", clinic: clinicId = "" }): Promise<string> {
  const client = connectEventStore(url, "test");
  const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
  const owner = { applicationId: application, clinicId, environment: "production" } as const;
  const input = { owner, url: "https://hooks.example.com/a", events: ["appointment.created" as const] };
  const dependencies = { log: createPlainLog(client), secretBox };
  const registration = await registerEndpoint(dependencies, input, createTestOperatorContext());
  await client.dispose();
  return registration.endpoint.id;
}
