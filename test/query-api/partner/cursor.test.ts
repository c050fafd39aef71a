import { randomUUID } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import { readCursor } from "../../../query-api/partner/cursor.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { appointmentRequested } from "../../support/clinics.ts";
import { endpointRegistered } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { createCaller, type PartnerCaller } from "./caller.ts";

const encode = (text: string) => Buffer.from(text).toString("base64url");

/** Generates cursors in the format of responses. */
const validCursorArbitrary = fc
  .tuple(
    fc.date({ min: new Date("0001-01-01"), max: new Date("9999-12-31"), noInvalidDate: true }),
    fc.integer({ min: 0, max: 999 }),
    fc.uuid(),
  )
  .map(([date, micros, id]) => {
    const time = date.toISOString().replace("Z", `${String(micros).padStart(3, "0")}Z`);
    return { time, id, cursor: encode(`${time} ${id}`) };
  });

/** Generates cursors in which characters are changed, removed, doubled or inserted. */
const changedCursorArbitrary = fc
  .tuple(validCursorArbitrary, fc.nat(85), fc.constantFrom(0, 1, 2), fc.string({ unit: "binary-ascii", maxLength: 2 }))
  .map(
    ([{ cursor }, index, removedCount, insertedText]) =>
      cursor.slice(0, index) + insertedText + cursor.slice(index + removedCount),
  );

const randomTextArbitrary = fc.oneof(
  changedCursorArbitrary,
  fc.string({ unit: "binary", maxLength: 100 }),
  fc.base64String({ maxLength: 100 }),
  fc.string({ maxLength: 64 }).map(encode),
  fc.constantFrom("", "null", "9".repeat(86), "A".repeat(86), "x".repeat(7_000)),
  fc
    .constantFrom(
      "2026-02-30T00:00:00.000000Z",
      "0000-01-01T00:00:00.000000Z",
      "2026-01-01T24:00:00.000000Z",
      "2026-01-01T00:00:00.000+00:00",
      "2026-01-01t00:00:00.000000Z",
      "+02026-01-01T00:00:00.0000Z",
    )
    .map((time) => encode(`${time} 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001`)),
);

/** Returns the decoded cursor, or the error code if the cursor is refused. */
function tryReadCursor(cursor: string | string[]) {
  try {
    return readCursor(cursor);
  } catch (error) {
    if (error instanceof ApiError) return error.code;
    throw error;
  }
}

describe("cursors", () => {
  it("readCursor parses the cursors that the SQL statements create", () => {
    fc.assert(
      fc.property(
        validCursorArbitrary,
        ({ cursor, time, id }) => void expect(tryReadCursor(cursor)).to.eql({ time, id }),
      ),
    );
  });

  it("readCursor refuses every cursor that the SQL statements do not create", () => {
    const isValid = (text: string) => {
      const position = tryReadCursor(text);
      return typeof position === "object" && encode(`${position.time} ${position.id}`) === text;
    };
    fc.assert(
      fc.property(randomTextArbitrary, (text) => {
        if (!isValid(text)) expect(tryReadCursor(text)).to.equal("invalid_cursor");
      }),
      { numRuns: 2_000 },
    );
    const cursor = encode(`2026-01-01T00:00:00.000000Z ${randomUUID()}`);
    for (const invalidCursor of [`${cursor}==`, ` ${cursor}`, `${cursor}\n`, cursor.slice(1), [cursor, cursor]])
      expect(tryReadCursor(invalidCursor)).to.equal("invalid_cursor");
  });

  describe("in a request", () => {
    const api = setUpQueryApi();
    let caller: PartnerCaller;
    const endpointId = randomUUID();

    before(async () => {
      caller = await createCaller(api);
      const { clinicId, branchId } = caller.clinic;
      await api.given(
        endpointRegistered(caller.application, clinicId, endpointId),
        appointmentRequested(clinicId, branchId, "2026-03-10T09:00:00Z"),
      );
    });

    for (const [operationId, path] of [
      ["listPartnerAppointments", "/appointments?from=2026-03-01T00:00:00Z"],
      ["listWebhookDeliveries", `/webhook-endpoints/${endpointId}/deliveries?limit=10`],
    ] as const) {
      it(`the partner operation ${operationId} returns 200 or 400 for any cursor, and never an internal error`, async () => {
        await fc.assert(
          fc.asyncProperty(validCursorArbitrary, randomTextArbitrary, async ({ cursor }, text) => {
            await caller.readBody(operationId, `${path}&cursor=${cursor}`);
            if (tryReadCursor(text) !== "invalid_cursor") return;
            const refusal = await caller.readRefusal(`${path}&cursor=${encodeURIComponent(text)}`);
            expect(refusal).to.equal("400 invalid_cursor");
          }),
          { numRuns: 25 },
        );
      });
    }
  });
});
