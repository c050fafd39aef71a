import { appendFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { eventually } from "../../../support/eventually.ts";
import { type Installation, PUBLIC_HOST } from "../installation.ts";
import type { Partner } from "../onboard.ts";
import { run } from "../process.ts";
import type { Report } from "../report.ts";

/** Checks deploy/container/trial.md: the certificate of Caddy's own authority, and the receiver on loopback. */
export async function checkTrial(report: Report, installation: Installation, partner: Partner): Promise<void> {
  const { compose, folder, tryCompose } = installation;

  await report.check("a program that trusts the trial's authority accepts the certificate", async () => {
    const file = path.join(folder, "root.crt");
    writeFileSync(file, await compose(["exec", "-T", "ingress", "cat", "/data/caddy/pki/authorities/local/root.crt"]));
    const url = `https://${PUBLIC_HOST}/.well-known/jwks.json`;
    const { code, output } = await run("curl", ["--silent", "--show-error", "--fail", "--cacert", file, url]);
    expect(code, output).to.equal(0);
  });

  await report.check("the trial's receiver gets the webhook of a new appointment", async () => {
    appendFileSync(path.join(folder, ".env"), "COMPOSE_FILE=compose.yaml:trial.yaml\n");
    await compose(["up", "--detach", "--no-deps", "command", "webhooks"]);
    await compose(["up", "--detach", "--no-deps", "receiver"]);
    await installation.waitUntilReady();
    await partner.approveOrigin("http://localhost:9000");
    const endpoint = { url: "http://localhost:9000/hook", events: ["appointment.created"] };
    const registered = await partner.post("/webhook-endpoints", endpoint);
    expect(registered.status, registered.body).to.equal(201);
    const created = await partner.createAppointment("during-the-trial");
    expect(created.status, created.body).to.equal(201);
    await eventually("the receiver prints the webhook", async () =>
      (await tryCompose(["logs", "receiver"])).output.includes("appointment.created"),
    );
  });
}
