import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { expect } from "chai";
import { revokeApplication, revokeCredential } from "../../../command/operations/application-operations.ts";
import { suspendClinic } from "../../../command/operations/clinic-operations.ts";
import { revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { getTestServers } from "../../support/stack.ts";

/** Time after which a revocation must be effective. Milliseconds. */
const MAX_DELAY_MS = 1_000;

describe("revocations with two command processes", () => {
  let command: TestCommand;
  let commandProcess: ChildProcess;
  let urls: string[];

  before(async () => {
    command = await startTestCommandService();
    const secondProcess = await startProcess();
    commandProcess = secondProcess.commandProcess;
    urls = [command.url, secondProcess.url];
  });
  after(async () => {
    const exitPromise = once(commandProcess, "exit");
    commandProcess.kill("SIGTERM");
    await exitPromise;
    await command.stop();
  });

  /** Starts a command service in its own process. It accepts the tokens of the service in this process. */
  async function startProcess(): Promise<{ commandProcess: ChildProcess; url: string }> {
    const { eventstoreUrl, databaseUrls } = await getTestServers();
    const nodeCommand = buildNodeCommand("command/main.ts");
    const child = spawn(nodeCommand.command, nodeCommand.args, {
      stdio: ["ignore", "pipe", "inherit"],
      env: {
        ...globalThis.process.env,
        PORT: "0",
        DRAIN_DELAY_MS: "0",
        EVENTSTORE_URL: eventstoreUrl,
        DATABASE_URL: databaseUrls.command,
        TOKEN_ISSUER,
        TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [command.signingKey] }),
        PERSONAL_DATA_KEYS,
        WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
      },
    });
    let lines = "";
    child.stdout.on("data", (chunk) => {
      lines += chunk;
    });
    const url = await eventually("the service listens", () => /"url":"(http:[^"]+)"/.exec(lines)?.[1]);
    return { commandProcess: child, url };
  }

  function createAppointment(url: string, { branchId, animalId, headers }: PartnerWorld) {
    const body = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z" };
    const appointmentsUrl = `${url}/production/v1/appointments`;
    return sendRequest("POST", appointmentsUrl, { ...headers, "Idempotency-Key": randomUUID() }, body);
  }

  const context = createTestOperatorContext();
  const changes: [string, [status: number, error: string], (world: PartnerWorld) => Promise<unknown>][] = [
    ["a revoked credential", [401, "invalid_token"], (world) => revokeCredential(command.log, world, context)],
    [
      "a revoked application",
      [401, "invalid_token"],
      (world) => revokeApplication(command.log, { ...world, reason: null }, context),
    ],
    [
      "a revoked installation",
      [403, "installation_denied"],
      (world) => revokeInstallation(command.log, { ...world, reason: null }, context),
    ],
    [
      "a suspended clinic",
      [403, "clinic_not_operational"],
      ({ clinicId }) => suspendClinic(command.log, { clinicId, reason: "unpaid" }, context),
    ],
  ];
  for (const [caseName, refusal, revoke] of changes) {
    it(`every process refuses requests with ${caseName} after at most a second`, async () => {
      const world = await createPartnerWorld(command);
      for (const url of urls) expect((await createAppointment(url, world)).status).to.equal(201);
      await revoke(world);
      const changedAt = performance.now();
      for (const url of urls) {
        await eventually("the request is refused", async () => {
          const sentAt = performance.now();
          const response = await createAppointment(url, world);
          if (response.status === 201) expect(sentAt - changedAt).to.be.below(MAX_DELAY_MS);
          else expect([response.status, response.body.error]).to.deep.equal(refusal);
          return response.status !== 201;
        });
      }
    });
  }
});
