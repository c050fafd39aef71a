import { expect } from "chai";
import { webhookSecrets } from "../../../projection/read-models/webhook-endpoints.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";

type Row = ReturnType<typeof webhookSecrets.on.WebhookSecretRotated>;
type Rotation = Parameters<typeof webhookSecrets.on.WebhookSecretRotated>[1];
type ExpiryReport = Parameters<typeof webhookSecrets.on.WebhookSecretExpiryReported>[1];

const NOON_MS = Date.parse("2026-05-04T12:00:00.000Z");
const MINUTE_MS = 60_000;
const firstRow: Row = {
  endpoint_id: "e",
  secret_id: "0",
  encrypted_secret: "s0",
  former_secrets: [],
  headers: [],
  asymmetric_signature: true,
};

/**
 * Applies the rotation of a webhook secret to a row.
 *
 * @param minute time of the rotation, in minutes after noon
 * @param overlapMinutes minutes until the previous secret expires
 */
function rotate(row: Row, secret: string, minute: number, overlapMinutes: number): Row {
  const rotatedAt = NOON_MS + minute * MINUTE_MS;
  const data = {
    endpointId: "e",
    secretId: secret,
    encryptedSecret: secret,
    previousExpiresAt: toInstant(rotatedAt + overlapMinutes * MINUTE_MS),
  };
  const event = { type: "WebhookSecretRotated", data, metadata: { occurredAt: toInstant(rotatedAt) } };
  return webhookSecrets.on.WebhookSecretRotated(row, event as unknown as Rotation, () => ({}));
}

const listFormerSecrets = (row: Row) => row?.former_secrets.map(({ encryptedSecret }) => encryptedSecret);

describe("an endpoint's secrets", () => {
  it("former secrets are used for signing until the expiry time, even after further rotations", () => {
    const finalRow = rotate(rotate(firstRow, "s1", 0, 10), "s2", 5, 10);
    expect(finalRow).to.deep.include({ encrypted_secret: "s2" });
    expect(listFormerSecrets(finalRow)).to.deep.equal(["s1", "s0"]);
    expect(listFormerSecrets(rotate(finalRow, "s3", 10, 10))).to.deep.equal(["s2", "s1"]);
    expect(listFormerSecrets(rotate(finalRow, "s3", 60, 10))).to.deep.equal(["s2"]);
  });

  it("a rotation without an overlap removes the previous secret immediately, but keeps other former secrets", () => {
    expect(listFormerSecrets(rotate(rotate(firstRow, "s1", 0, 10), "s2", 1, 0))).to.deep.equal(["s0"]);
  });

  it("the report of an expiry marks only its own secret", () => {
    const row = rotate(rotate({ ...firstRow, secret_id: "first" }, "s1", 0, 10), "s2", 5, 10);
    const event = { type: "WebhookSecretExpiryReported", data: { endpointId: "e", secretId: "first" } };
    const reportedRow = webhookSecrets.on.WebhookSecretExpiryReported(
      row,
      event as unknown as ExpiryReport,
      () => ({}),
    );
    expect(reportedRow?.former_secrets.map(({ isReported }) => isReported)).to.deep.equal([false, true]);
  });

  it("only the latest eight former secrets are kept", () => {
    let row: Row = firstRow;
    for (let n = 1; n <= 10; n += 1) row = rotate(row, `s${n}`, n, 1_440);
    expect(listFormerSecrets(row)).to.deep.equal(["s9", "s8", "s7", "s6", "s5", "s4", "s3", "s2"]);
  });
});
