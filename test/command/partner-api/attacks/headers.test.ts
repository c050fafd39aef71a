import { expect } from "chai";
import { expectRefusal } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("attacks on the partner API with headers", () => {
  const attacker = createAttacker();
  const { authorizationHeader, clinicHeader, ownHeaders, keyHeader, create } = attacker;

  const clinicHeaders: [string, () => string[]][] = [
    [
      "two clinic headers that name different clinics",
      () => [clinicHeader(), clinicHeader(attacker.otherWorld.clinicId)],
    ],
    ["two clinic headers that name the same clinic", () => [clinicHeader(), clinicHeader()]],
    [
      "two clinics in one clinic header",
      () => [clinicHeader(`${attacker.world.clinicId}, ${attacker.otherWorld.clinicId}`)],
    ],
    [
      "an encoded line break and another header in the clinic header",
      () => [clinicHeader(`${attacker.world.clinicId}%0d%0aX-SERVICE-Branch-ID: x`)],
    ],
    ["SQL in the clinic header", () => [clinicHeader("' OR '1'='1")]],
    ["an object in the clinic header", () => [clinicHeader(`{"$ne":null}`)]],
    ["30 KB in the clinic header", () => [clinicHeader("a".repeat(30_000))]],
  ];
  for (const [caseName, headers] of clinicHeaders) {
    it(`a request with ${caseName} gets 403 clinic_header_invalid`, async () => {
      const response = await create([authorizationHeader(), ...headers(), keyHeader(), JSON_TYPE]);
      expectRefusal(response, 403, "clinic_header_invalid");
    });
  }

  it("a request with a second clinic header after a line break gets 403 clinic_header_invalid", async () => {
    const smuggledHeader = `${clinicHeader()}\r\n${clinicHeader(attacker.otherWorld.clinicId)}`;
    expectRefusal(
      await create([authorizationHeader(), smuggledHeader, keyHeader(), JSON_TYPE]),
      403,
      "clinic_header_invalid",
    );
  });

  it("a request with two Authorization headers, equal or different, gets 401 invalid_token", async () => {
    for (const secondToken of [attacker.world.token, attacker.otherWorld.token]) {
      const response = await create([...ownHeaders(), `Authorization: Bearer ${secondToken}`, keyHeader(), JSON_TYPE]);
      expectRefusal(response, 401, "invalid_token");
    }
  });

  it("a request with two branch headers gets 403 branch_denied", async () => {
    const branchHeaders = [attacker.world.branchId, attacker.world.otherBranchId].map(
      (id) => `X-SERVICE-Branch-ID: ${id}`,
    );
    expectRefusal(await create([...ownHeaders(), ...branchHeaders, keyHeader(), JSON_TYPE]), 403, "branch_denied");
  });

  it("a request with two Idempotency-Key headers gets 422 validation_failed", async () => {
    expectRefusal(await create([...ownHeaders(), keyHeader(), keyHeader(), JSON_TYPE]), 422, "validation_failed");
  });

  it("a request with two Content-Length headers gets 400, and a request with a 40 KB token gets 431", async () => {
    const lengthResponse = await create([...ownHeaders(), keyHeader(), JSON_TYPE, "Content-Length: 1"]);
    expectRefusal(lengthResponse, 400, "malformed_request");
    const tokenResponse = await create([`Authorization: Bearer ${"a".repeat(40_000)}`, clinicHeader(), keyHeader()]);
    expectRefusal(tokenResponse, 431, "headers_too_large");
  });

  it("POST /appointments accepts the header Expect with `100-continue` or an unknown value", async () => {
    for (const expectation of ["100-continue", "something-else"]) {
      const response = await create([...ownHeaders(), keyHeader(), JSON_TYPE, `Expect: ${expectation}`]);
      expect(response.status, response.text).to.equal(201);
    }
  });
});
