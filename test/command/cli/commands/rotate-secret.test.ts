import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { registerEndpoint } from "../../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../../shared/auth/secret-box.ts";
import { createEventLog, type EventLog } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { getTestServers } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

describe("endpoint rotate-secret", () => {
  const keys = { current: "k", keys: { k: Buffer.alloc(32).toString("base64") } };
  const secretBox = createSecretBox(keys);
  let client: EventStoreDBClient;
  let log: EventLog;
  let env: NodeJS.ProcessEnv;

  before(async () => {
    const { eventstoreUrl } = await getTestServers();
    env = { EVENTSTORE_URL: eventstoreUrl, WEBHOOK_SECRET_KEYS: JSON.stringify(keys) };
    client = connectToLog(eventstoreUrl);
    log = createEventLog(client);
  });

  async function registerTestEndpoint(): Promise<string> {
    const owner = { applicationId: randomUUID(), clinicId: randomUUID(), environment: "sandbox" } as const;
    const input = { owner, url: "https://hooks.example.com/", events: ["appointment.created" as const] };
    return (await registerEndpoint({ log, secretBox }, input, createTestOperatorContext())).endpoint.id;
  }

  /** Returns the new secret from the log, and the time for which the previous secret stays valid. Milliseconds. */
  async function readRotation(endpointId: string) {
    const event = (await log.read(`webhookEndpoint-${endpointId}`)).at(-1);
    if (event?.type !== "WebhookSecretRotated") throw new Error(`The last event is not a rotation but ${event?.type}`);
    const { encryptedSecret, previousExpiresAt } = event.data;
    return {
      secret: await secretBox.open(encryptedSecret),
      overlap: Date.parse(previousExpiresAt) - Date.parse(event.metadata.occurredAt),
    };
  }

  for (const [caseName, flags, overlapMs] of [
    ["keeps the previous secret valid for 24 hours", [], DAY_MS],
    ["invalidates the previous secret immediately with `--is-leaked`", ["--is-leaked"], 0],
  ] as const)
    it(`\`endpoint rotate-secret\` shows the new secret once and ${caseName}`, async () => {
      const id = await registerTestEndpoint();
      const result = await runClinic(["endpoint", "rotate-secret", "--endpoint", id, ...flags], { env });
      expect([result.code, result.errorLines]).to.deep.equal([0, []]);
      const storedRotation = await readRotation(id);
      expect(result.outputLines).to.deep.equal([
        `endpoint rotate-secret: done, endpoint ${id}\nsecret: ${storedRotation.secret}`,
      ]);
      expect(storedRotation.overlap).to.equal(overlapMs);
    });

  it("`endpoint rotate-secret` requires the keys that encrypt webhook secrets", async () => {
    const { EVENTSTORE_URL } = env;
    const args = ["endpoint", "rotate-secret", "--endpoint", await registerTestEndpoint()];
    const { code, errorLines: err } = await runClinic(args, { env: { EVENTSTORE_URL } });
    expect(code).to.equal(2);
    expect(err.join("\n")).to.match(/^clinic: .*WEBHOOK_SECRET_KEYS[^\n]*$/);
  });
});
