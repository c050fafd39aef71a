import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { clinicCommandLine } from "../../../../command/cli/command-line.ts";
import { runCommandLine } from "../../../../shared/command-line/command-line.ts";
import { type DocumentedService, startDocumentedService } from "../../../docs/documented-service.ts";
import { eventually } from "../../../support/eventually.ts";
import { createSandboxAppointment, type Partner } from "../../../support/partner-api.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { createTestTerminal } from "../../../support/terminal.ts";

describe("clinic partner listen", () => {
  let service: DocumentedService;
  let receiver: Receiver;
  let partner: Partner;
  const secretFile = path.join(makeTestRoot(), "client-secret");

  before(async () => {
    [service, receiver] = await Promise.all([startDocumentedService(), startReceiver()]);
    ({ partner } = await service.createSandboxPartner());
    fs.writeFileSync(secretFile, `${partner.clientSecret}\n`);
  });

  after(async () => {
    await receiver?.close();
    await service?.stop();
  });

  async function createAppointment(): Promise<string> {
    const { sandbox } = (await partner.request("GET", "/sandbox")).body;
    return (await createSandboxAppointment(partner, sandbox)).body.appointment.id;
  }

  const listen = (...options: string[]) => start("--forward", receiver.url, "--api", service.origin, ...options);

  function start(...options: string[]) {
    const controller = new AbortController();
    const env = { TOKEN_ISSUER: service.origin };
    const { terminal, ...lines } = createTestTerminal({ env, catchInterruption: () => controller.signal });
    const args = ["--client-id", partner.applicationId, "--secret-file", secretFile];
    const words = ["partner", "listen", ...args, ...options];
    return { ...lines, stop: () => controller.abort(), code: runCommandLine(clinicCommandLine, words, terminal) };
  }

  it("the command forwards an event with the signature and the body of a webhook, and prints the answer", async () => {
    const { outputLines, errorLines, stop, code } = listen();
    await eventually("the start", () => outputLines.length > 0);
    const [, secret = ""] = /^signing secret: (whsec_.*)$/m.exec(outputLines.join("\n")) ?? [];
    const appointmentId = await createAppointment();
    const { headers, body } = await eventually("the event", () => receiver.requests[0]);
    expect(new Webhook(secret).verify(body, headers as Record<string, string>)).to.deep.include({
      type: "appointment.created",
    });
    expect(headers["x-service-signature"]).to.equal(headers["webhook-signature"]);
    expect(JSON.parse(body).data.appointment.id).to.equal(appointmentId);
    await eventually("the answer", () => outputLines.length > 1);
    expect(outputLines[1]).to.match(/^\d\d:\d\d:\d\d appointment\.created [0-9a-f-]{36} → 200 .*in \d+ ms$/);
    stop();
    expect([await code, errorLines]).to.deep.equal([0, []]);
  });

  it("without --forward, the command prints each event of the API in TOKEN_ISSUER", async () => {
    const { outputLines, errorLines, stop, code } = start();
    await eventually("the start", () => outputLines.length > 0);
    expect(outputLines[0])
      .to.match(/^partner listen: printing events of /)
      .and.not.contain("secret");
    const appointmentId = await createAppointment();
    await eventually("the event", () => outputLines.length > 1);
    const [head, ...body] = outputLines[1]?.split("\n") ?? [];
    const event = JSON.parse(body.join("\n"));
    expect(head).to.equal(`appointment.created ${event.id}`);
    expect(event.data.appointment.id).to.equal(appointmentId);
    stop();
    expect([await code, errorLines]).to.deep.equal([0, []]);
  });

  it("if the API does not answer, the message names the option", async () => {
    const closedApi = await startReceiver();
    await closedApi.close();
    const { errorLines, code } = start("--api", closedApi.url);
    expect(await code).to.equal(4);
    expect(errorLines[0]).to.match(/does not answer: ECONNREFUSED; check --api$/);
  });

  it("if the connection breaks during a response of the API, the command tries again", async () => {
    const api = await startReceiver();
    const event = { id: randomUUID(), type: "appointment.created" };
    const bodies = [
      { access_token: "token", expires_in: 3600 },
      { installations: [{ clinicId: randomUUID(), clinicName: "North" }] },
      { events: [], cursor: "first" },
      undefined,
      { events: [event], cursor: "second" },
    ];
    const brokenResponse = { headers: { "Content-Length": "100", Connection: "close" }, body: "{" };
    api.queueReactions(...bodies.map((body) => (body ? { body: JSON.stringify(body) } : brokenResponse)));
    api.setDefaultReaction({ mode: "hang" });
    const { outputLines, errorLines, stop, code } = start("--api", api.url);
    await eventually("the event", () => outputLines.at(-1)?.includes(event.id));
    stop();
    expect([await code, errorLines.length]).to.deep.equal([0, 1]);
    expect(errorLines[0]).to.contain(`the partner API at ${api.url}/sandbox/v1 does not answer: `);
    await api.close();
  });

  it("a server that does not answer stops nothing, and wrong credentials stop the command with exit code 3", async () => {
    const closedReceiver = await startReceiver();
    await closedReceiver.close();
    const { outputLines, stop, code } = listen("--forward", closedReceiver.url);
    await eventually("the start", () => outputLines.length > 0);
    for (const count of [2, 3]) {
      await createAppointment();
      await eventually("the failure", () => outputLines.length === count);
      expect(outputLines.at(-1)).to.contain("no answer: ECONNREFUSED");
    }
    stop();
    expect(await code).to.equal(0);
    fs.writeFileSync(secretFile, "wrong");
    const refused = listen();
    expect(await refused.code, refused.errorLines.join()).to.equal(3);
    expect(refused.errorLines).to.deep.equal(["clinic: the partner API returned 401 invalid_client"]);
  });
});
