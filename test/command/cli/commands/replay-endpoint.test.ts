import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import {
  disableEndpoint,
  type EndpointReference,
  registerEndpoint,
} from "../../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../../shared/auth/secret-box.ts";
import type { WebhookReplayEvent } from "../../../../shared/domain/events/partner.ts";
import { createEventLog, type EventLog } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { getTestServers } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

const SINCE = "2026-05-04T14:00:00+02:00";
const SINCE_UTC = "2026-05-04T12:00:00.000Z";

describe("endpoint replay", () => {
  const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
  let client: EventStoreDBClient;
  let log: EventLog;
  let env: NodeJS.ProcessEnv;

  before(async () => {
    const { eventstoreUrl } = await getTestServers();
    env = { EVENTSTORE_URL: eventstoreUrl };
    client = connectToLog(eventstoreUrl);
    log = createEventLog(client);
  });

  async function registerTestEndpoint(): Promise<EndpointReference> {
    const owner = { applicationId: randomUUID(), clinicId: randomUUID(), environment: "sandbox" } as const;
    const input = { owner, url: "https://hooks.example.com/", events: ["appointment.created" as const] };
    const { endpoint } = await registerEndpoint({ log, secretBox }, input, createTestOperatorContext());
    return { endpointId: endpoint.id, owner };
  }

  const replay = (...args: string[]) => runClinic(["endpoint", "replay", ...args], { env });
  async function requestReplay({ endpointId }: EndpointReference, ...args: string[]) {
    const { code, outputLines, errorLines } = await replay(
      "--endpoint",
      endpointId,
      "--since",
      SINCE,
      ...args,
      "--json",
    );
    expect([code, errorLines]).to.deep.equal([0, []]);
    return JSON.parse(outputLines.join()) as { endpointId: string; changed: boolean; replayId: string };
  }
  const readReplay = (id: string) => log.read<WebhookReplayEvent>(`webhookReplay-${id}`);

  it("`endpoint replay` requests a replay of the failed and skipped deliveries, with the operator as the actor", async () => {
    const endpoint = await registerTestEndpoint();
    const { endpointId, owner } = endpoint;
    const result = await requestReplay(endpoint, "--actor", "Ops");
    expect(result).to.include({ endpointId, changed: true });
    const [event, ...laterEvents] = await readReplay(result.replayId);
    expect(laterEvents).to.deep.equal([]);
    expect(event?.data).to.deep.include({ ...owner, endpointId, since: SINCE_UTC, deliveryIds: null });
    expect(event?.data).to.deep.include({ statuses: ["failed", "skipped"], until: event?.metadata.occurredAt });
    expect(event?.metadata).to.deep.include({ actor: { type: "operator", id: "Ops" }, clinicId: owner.clinicId });
  });

  it("repeating `endpoint replay` with the same values changes nothing, and another end is another replay", async () => {
    const endpoint = await registerTestEndpoint();
    const { replayId: firstId } = await requestReplay(endpoint);
    expect(await requestReplay(endpoint)).to.include({ changed: false, replayId: firstId });
    expect(await readReplay(firstId)).to.have.length(1);
    const until = "2026-05-05T00:00:00.000Z";
    const { changed, replayId: otherId } = await requestReplay(endpoint, "--until", until);
    expect([changed, otherId === firstId]).to.deep.equal([true, false]);
    expect((await readReplay(otherId))[0]?.data).to.include({ since: SINCE_UTC, until });
  });

  it("`endpoint replay` refuses unknown and disabled endpoints", async () => {
    const unknownResult = await replay("--endpoint", randomUUID(), "--since", SINCE);
    expect([unknownResult.code, unknownResult.errorLines.join()]).to.deep.equal([
      3,
      "clinic: refused: there is no such webhook endpoint (webhook_endpoint_not_found)",
    ]);
    const endpoint = await registerTestEndpoint();
    await disableEndpoint(log, endpoint, createTestOperatorContext());
    const disabledResult = await replay("--endpoint", endpoint.endpointId, "--since", SINCE);
    expect(disabledResult.code).to.equal(3);
    expect(disabledResult.errorLines.join()).to.contain("(webhook_endpoint_disabled)");
  });

  it("`endpoint replay` prints which options are missing or invalid", async () => {
    const { code, errorLines } = await replay("--since", "yesterday");
    const rule = "must be a date, a time such as 2026-11-28 10:00, or an RFC 3339 date-time with an offset";
    expect([code, errorLines]).to.deep.equal([2, [`clinic: --since ${rule}`]]);
    expect((await replay("--since", SINCE)).errorLines).to.deep.equal(["clinic: --endpoint is missing"]);
    const emptyRange = await replay("--endpoint", randomUUID(), "--since", SINCE, "--until", SINCE_UTC);
    expect([emptyRange.code, emptyRange.errorLines]).to.deep.equal([
      3,
      ["clinic: refused: until must be later than since (until_before_since)"],
    ]);
  });
});
