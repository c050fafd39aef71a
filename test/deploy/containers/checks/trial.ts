import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../../../deploy/local/setup/project.ts";
import { eventually } from "../../../support/eventually.ts";
import { run } from "../../process.ts";
import { check } from "../../report.ts";
import { type Installation, PUBLIC_HOST } from "../installation.ts";
import type { Partner } from "../onboard.ts";

/**
 * Checks the trial in deploy/container/trial.md: the certificate of Caddy's own authority, and a receiver on loopback.
 */
export async function checkTrial(installation: Installation, partner: Partner): Promise<void> {
  const { compose, folder, tryCompose } = installation;

  await check("a program that trusts the trial's authority accepts the certificate", async () => {
    const file = path.join(folder, "root.crt");
    writeFileSync(file, await compose(["exec", "-T", "ingress", "cat", "/data/caddy/pki/authorities/local/root.crt"]));
    const url = `https://${PUBLIC_HOST}/.well-known/jwks.json`;
    const { code, output } = await run("curl", ["--silent", "--show-error", "--fail", "--cacert", file, url]);
    expect(code, output).to.equal(0);
  });

  await check("a second `up` with the files of the trial keeps the installation running", async () => {
    appendFileSync(path.join(folder, ".env"), "COMPOSE_FILE=compose.yaml:trial.yaml\n");
    for (let count = 0; count < 2; count++) {
      await compose(["up", "--detach"], { timeoutMs: 300_000 });
      await installation.waitUntilReady();
    }
  });

  await check("the trial's receiver gets the webhook of a new appointment", async () => {
    const receiver = tryCompose(["exec", "-T", "webhooks", "node", "--eval", readReceiver()], { timeoutMs: 120_000 });
    await partner.approveOrigin("http://localhost:9000");
    const endpoint = { url: "http://localhost:9000/hook", events: ["appointment.created"] };
    const registered = await partner.post("/webhook-endpoints", endpoint);
    expect(registered.status, registered.body).to.equal(201);
    const created = await partner.createAppointment("during-the-trial");
    expect(created.status, created.body).to.equal(201);
    await eventually("the webhook is delivered", async () => {
      const { body } = await partner.get(`/webhook-endpoints/${JSON.parse(registered.body).endpoint.id}/deliveries`);
      return body.includes('"delivered"');
    });
    await compose(["stop", "webhooks"]);
    expect((await receiver).output).to.contain("appointment.created");
  });
}

const readReceiver = () => readFileSync(path.join(PROJECT_FOLDER, "deploy/container/receiver.js"), "utf8");
