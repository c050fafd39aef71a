import { expect } from "chai";
import { eventually } from "../../../support/eventually.ts";
import { check } from "../../report.ts";
import type { Engine } from "../engine.ts";
import { type Installation, SERVICES } from "../installation.ts";
import type { Partner } from "../onboard.ts";

/** Exit code of a container that was killed because it did not stop in time. */
const KILLED = "137";

/** Checks the health checks, the stop of all containers, and the start after a power failure. */
export async function checkLifecycle(engine: Engine, installation: Installation, partner: Partner): Promise<void> {
  const { podman } = engine;
  const { compose, container, waitUntilReady } = installation;

  await check("all containers become healthy when the engine runs health checks", async () => {
    engine.startHealthChecks();
    const names = [...SERVICES, "eventstore", "postgres", "nats", "ingress"].map(container);
    const readStates = async () =>
      (await podman(["inspect", "--format", "{{.Name}} {{.State.Health.Status}}", ...names])).split("\n");
    await eventually(
      "all containers are healthy",
      async () => (await readStates()).every((line) => line.endsWith(" healthy")),
      300_000,
    );
    return `${names.length} containers`;
  });

  await check("all servers and services stop by themselves, and keep their data", async () => {
    const created = await partner.createAppointment("before-the-stop");
    expect(created.status, created.body).to.equal(201);
    const startedAt = Date.now();
    await compose(["stop"]);
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    const codes = await podman(["ps", "--all", "--format", "{{.Names}} {{.ExitCode}}"]);
    expect(codes.split("\n").filter((line) => line.endsWith(` ${KILLED}`))).to.deep.equal([]);
    const { output } = await installation.tryCompose(["logs", "postgres"]);
    expect(output).to.contain("database system is shut down");
    await compose(["start"]);
    await waitUntilReady();
    await expectKept(partner, "before-the-stop", created.body);
    return `${seconds} s`;
  });

  await check("after a power failure, the containers start again with all acknowledged data", async () => {
    const created = await partner.createAppointment("before-the-crash");
    expect(created.status, created.body).to.equal(201);
    await engine.crash();
    await engine.start();
    const startedAt = Date.now();
    // The command of podman-restart.service.
    await podman(["start", "--all", "--filter", "restart-policy=always"]);
    await waitUntilReady();
    await expectKept(partner, "before-the-crash", created.body);
    return `ready after ${Math.round((Date.now() - startedAt) / 1000)} s`;
  });
}

/** Repeats a create with its idempotency key, and checks that the response contains the stored appointment. */
async function expectKept(partner: Partner, key: string, body: string): Promise<void> {
  const repeated = await eventually("the repeated request succeeds", async () => {
    const response = await partner.createAppointment(key);
    return response.status < 500 && response;
  });
  expect(repeated.status, repeated.body).to.be.oneOf([200, 201]);
  expect(JSON.parse(repeated.body)).to.deep.equal(JSON.parse(body));
}
