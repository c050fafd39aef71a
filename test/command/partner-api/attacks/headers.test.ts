import { expect } from "chai";
import { expectRefusal } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("partner API, attacked by headers", () => {
  const attacker = createAttacker();
  const { authorization, clinicHeader, own, key, create } = attacker;

  const clinics: [string, () => string[]][] = [
    ["two clinics", () => [clinicHeader(), clinicHeader(attacker.other.clinicId)]],
    ["one clinic twice", () => [clinicHeader(), clinicHeader()]],
    [
      "two clinics in one header",
      () => [clinicHeader(`${attacker.world.clinicId}, ${attacker.other.clinicId}`)],
    ],
    [
      "a header within the clinic's",
      () => [clinicHeader(`${attacker.world.clinicId}%0d%0aX-SERVICE-Branch-ID: x`)],
    ],
    ["SQL", () => [clinicHeader("' OR '1'='1")]],
    ["an object", () => [clinicHeader(`{"$ne":null}`)]],
    ["30 KB", () => [clinicHeader("a".repeat(30_000))]],
  ];
  for (const [what, headers] of clinics) {
    it(`403 clinic_header_invalid: ${what}`, async () => {
      const answer = await create([authorization(), ...headers(), key(), JSON_TYPE]);
      expectRefusal(answer, 403, "clinic_header_invalid");
    });
  }

  it("a header that a line break smuggles in is a header of the same request, and judged as such", async () => {
    const smuggled = `${clinicHeader()}\r\n${clinicHeader(attacker.other.clinicId)}`;
    expectRefusal(await create([authorization(), smuggled, key(), JSON_TYPE]), 403, "clinic_header_invalid");
  });

  it("401 invalid_token: two Authorization headers, equal or not", async () => {
    for (const second of [attacker.world.token, attacker.other.token]) {
      const answer = await create([...own(), `Authorization: Bearer ${second}`, key(), JSON_TYPE]);
      expectRefusal(answer, 401, "invalid_token");
    }
  });

  it("403 branch_denied: two branches", async () => {
    const branches = [attacker.world.branchId, attacker.world.otherBranchId].map(
      (id) => `X-SERVICE-Branch-ID: ${id}`,
    );
    expectRefusal(await create([...own(), ...branches, key(), JSON_TYPE]), 403, "branch_denied");
  });

  it("422: two idempotency keys", async () => {
    expectRefusal(await create([...own(), key(), key(), JSON_TYPE]), 422, "validation_failed");
  });

  it("400 and 431: two lengths, a token of 40 KB", async () => {
    const two = await create([...own(), key(), JSON_TYPE, "Content-Length: 1"]);
    expectRefusal(two, 400, "malformed_request");
    const huge = await create([`Authorization: Bearer ${"a".repeat(40_000)}`, clinicHeader(), key()]);
    expectRefusal(huge, 431, "headers_too_large");
  });

  it("takes Expect: 100-continue, and one that it does not know", async () => {
    for (const expectation of ["100-continue", "something-else"]) {
      const answer = await create([...own(), key(), JSON_TYPE, `Expect: ${expectation}`]);
      expect(answer.status, answer.text).to.equal(201);
    }
  });
});
