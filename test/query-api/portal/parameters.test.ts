import { expect } from "chai";
import fc from "fast-check";
import { openClinic } from "../../support/clinics.ts";
import { setUpQueryApi } from "../set-up-query-api.ts";

/** Generates parameter values: random texts, and texts that parsers often handle wrongly. */
const valueArbitrary = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom("NaN", "Infinity", "-0", "1e400", "0x10", "9".repeat(400), "-".repeat(9), "null", "'; --"),
  fc.constantFrom("0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "2026-02-30"),
  fc.integer().map(String),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
);
const nameArbitrary = fc.constantFrom(
  "limit",
  "offset",
  "from",
  "to",
  "status",
  "includeInactive",
  "cursor",
  "__proto__",
);

describe("the portal's query parameters", () => {
  const api = setUpQueryApi();
  let userId: string;

  before(async () => {
    ({ userId } = await openClinic(api.given));
  });

  for (const operation of ["customers", "appointments", "services", "availability"]) {
    it(`GET /api/v1/${operation} returns 200 for any query parameters`, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(fc.tuple(nameArbitrary, valueArbitrary), { maxLength: 5 }), async (pairs) => {
          const query = pairs.map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
          const { status, body } = await api.get(`/api/v1/${operation}?${query}`, userId);
          expect(status, JSON.stringify(body)).to.equal(200);
        }),
        { numRuns: 40 },
      );
    });
  }
});
