import { expect } from "chai";
import { expectRefusal } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("attacks on the partner API with headers", () => {
  const attacker = createAttacker();
  const { getAuthorizationHeader, getClinicHeader, getOwnHeaders, createKeyHeader, postAppointment } = attacker;

  const clinicHeaders: [string, () => string[]][] = [
    ["no clinic header", () => []],
    ["an empty clinic header", () => [getClinicHeader("")]],
    ["a clinic header that is not a UUID", () => [getClinicHeader("clinic")]],
    [
      "two clinic headers that name different clinics",
      () => [getClinicHeader(), getClinicHeader(attacker.otherWorld.clinicId)],
    ],
    ["two clinic headers that name the same clinic", () => [getClinicHeader(), getClinicHeader()]],
    [
      "two clinics in one clinic header",
      () => [getClinicHeader(`${attacker.world.clinicId}, ${attacker.otherWorld.clinicId}`)],
    ],
    [
      "an encoded line break and another header in the clinic header",
      () => [getClinicHeader(`${attacker.world.clinicId}%0d%0aX-SERVICE-Branch-ID: x`)],
    ],
    ["SQL in the clinic header", () => [getClinicHeader("' OR '1'='1")]],
    ["an object in the clinic header", () => [getClinicHeader(`{"$ne":null}`)]],
    ["30 KB in the clinic header", () => [getClinicHeader("a".repeat(30_000))]],
  ];
  for (const [caseName, getHeaders] of clinicHeaders) {
    it(`a request with ${caseName} gets 403 clinic_header_invalid`, async () => {
      const response = await postAppointment([getAuthorizationHeader(), ...getHeaders(), createKeyHeader(), JSON_TYPE]);
      expectRefusal(response, 403, "clinic_header_invalid");
    });
  }

  it("a request with a second clinic header after a line break gets 403 clinic_header_invalid", async () => {
    const smuggledHeader = `${getClinicHeader()}\r\n${getClinicHeader(attacker.otherWorld.clinicId)}`;
    expectRefusal(
      await postAppointment([getAuthorizationHeader(), smuggledHeader, createKeyHeader(), JSON_TYPE]),
      403,
      "clinic_header_invalid",
    );
  });

  it("a request with two Authorization headers, equal or different, gets 401 invalid_token", async () => {
    for (const secondToken of [attacker.world.token, attacker.otherWorld.token]) {
      const response = await postAppointment([
        ...getOwnHeaders(),
        `Authorization: Bearer ${secondToken}`,
        createKeyHeader(),
        JSON_TYPE,
      ]);
      expectRefusal(response, 401, "invalid_token");
    }
  });

  it("a request with two branch headers gets 403 branch_denied", async () => {
    const branchHeaders = [attacker.world.branchId, attacker.world.otherBranchId].map(
      (id) => `X-SERVICE-Branch-ID: ${id}`,
    );
    expectRefusal(
      await postAppointment([...getOwnHeaders(), ...branchHeaders, createKeyHeader(), JSON_TYPE]),
      403,
      "branch_denied",
    );
  });

  it("a request with two Idempotency-Key headers gets 422 validation_failed", async () => {
    expectRefusal(
      await postAppointment([...getOwnHeaders(), createKeyHeader(), createKeyHeader(), JSON_TYPE]),
      422,
      "validation_failed",
    );
  });

  it("a request with two Content-Length headers gets 400, and a request with a 40 KB token gets 431", async () => {
    const twoLengthsResponse = await postAppointment([
      ...getOwnHeaders(),
      createKeyHeader(),
      JSON_TYPE,
      "Content-Length: 1",
    ]);
    expectRefusal(twoLengthsResponse, 400, "malformed_request");
    const longTokenResponse = await postAppointment([
      `Authorization: Bearer ${"a".repeat(40_000)}`,
      getClinicHeader(),
      createKeyHeader(),
    ]);
    expectRefusal(longTokenResponse, 431, "headers_too_large");
  });

  it("POST /appointments accepts the header Expect with `100-continue` or an unknown value", async () => {
    for (const expectation of ["100-continue", "something-else"]) {
      const response = await postAppointment([
        ...getOwnHeaders(),
        createKeyHeader(),
        JSON_TYPE,
        `Expect: ${expectation}`,
      ]);
      expect(response.status, response.text).to.equal(201);
    }
  });
});
