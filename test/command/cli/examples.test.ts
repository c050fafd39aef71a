import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { commands } from "../../../command/cli/commands/commands.ts";
import {
  confirmAppointment,
  requestAppointment,
} from "../../../command/operations/appointment-operations.ts";
import { registerEndpoint } from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { operatorContext } from "../../support/partner.ts";
import { testServers } from "../../support/stack.ts";
import { runClinic } from "./terminal.ts";

/** The commands in an order in which each can do its work, with the options that the example lacks for it. */
const STORY: [command: string, more?: string][] = [
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
  ["clinic close"],
];

/** The words of an example, its year so far ahead that what must be in the future always is. */
function wordsOf(example: string): string[] {
  const words = (example.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ""));
  return words.map((word) => word.replace(/^2027-/, `${new Date().getFullYear() + 1}-`));
}

describe("the examples of the operator's command line", () => {
  it("each do their work, one after the other, with the ids that the former ones printed", async () => {
    const env = { EVENTSTORE_URL: (await testServers()).eventstoreUrl };
    // A user is the identity provider's, not ours.
    const ids: Record<string, string> = { user: randomUUID() };
    for (const [name, more = ""] of STORY) {
      const command = commands.find(({ noun, verb }) => `${noun} ${verb}` === name);
      expect(command, name).to.not.equal(undefined);
      if (name === "endpoint disable") ids.endpoint = await endpoint(env.EVENTSTORE_URL, ids);
      if (name === "appointment no-show") ids.appointment = await missed(env.EVENTSTORE_URL, ids);
      const { noun, verb, example } = command!;
      const entity = noun === "partner" ? "application" : noun;
      const words = wordsOf(example).map((word, index, all) => {
        const option = all[index - 1]?.replace(/^--/, "") ?? "";
        return /^[0-9a-f]{8}-/.test(word) ? ids[option === "id" ? entity : option.replace(/s$/, "")]! : word;
      });
      const ran = await runClinic([noun, verb, ...words, ...(more ? more.split(" ") : []), "--json"], {
        env,
      });
      expect([name, ran.code, ran.err]).to.deep.equal([name, 0, []]);
      const { id, changed, assignment, credentialId } = JSON.parse(ran.out.join("\n"));
      expect([name, changed]).to.deep.equal([name, true]);
      Object.assign(
        ids,
        { [entity]: ids[entity] ?? id },
        command!.options.id?.isGenerated && { [entity]: id },
      );
      Object.assign(ids, assignment && { assignment }, credentialId && { credential: credentialId });
    }
  });

  it("are all in that order", () => {
    const told = new Set(STORY.map(([name]) => name));
    expect(commands.map(({ noun, verb }) => `${noun} ${verb}`).filter((name) => !told.has(name))).to.eql([]);
  });

  it("print the id of what they made, whatever it belongs to", async () => {
    const env = { EVENTSTORE_URL: (await testServers()).eventstoreUrl };
    const example = (name: string) =>
      wordsOf(commands.find(({ noun, verb }) => `${noun} ${verb}` === name)!.example);
    const registered = await runClinic(["clinic", "register", ...example("clinic register")], { env });
    const clinicId = registered.out[0]!.slice(-36);
    const branchId = randomUUID();
    const open = ["branch", "open", "--clinic", clinicId, "--name", "Old Town", "--id", branchId];
    expect((await runClinic(open, { env })).out).to.eql([`branch open: done, id ${branchId}`]);
  });
});

/** A confirmed appointment whose time has come; the command line makes none. */
async function missed(url: string, { clinic: clinicId = "", branch: branchId = "" }): Promise<string> {
  const client = connectEventStore(url, "test");
  const [appointmentId, scheduledAt] = [randomUUID(), "2026-01-02T09:00:00.000Z"];
  const what = { appointmentId, clinicId, branchId, animalId: null, scheduledAt, durationMinutes: 30 };
  const context = operatorContext(Date.parse("2026-01-01T09:00:00Z"));
  const log = createEventLog(client);
  await requestAppointment(log, { ...what, reason: null, notes: null }, context);
  await confirmAppointment(log, { appointmentId, clinicId }, context);
  await client.dispose();
  return appointmentId;
}

/** Partners register their endpoints themselves, over HTTP. */
async function endpoint(url: string, { application = "", clinic: clinicId = "" }): Promise<string> {
  const client = connectEventStore(url, "test");
  const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
  const owner = { applicationId: application, clinicId, environment: "production" } as const;
  const input = { owner, url: "https://hooks.example.com/a", events: ["appointment.created" as const] };
  const using = { log: createEventLog(client), secretBox };
  const registered = await registerEndpoint(using, input, operatorContext());
  await client.dispose();
  return registered.endpoint.id;
}
