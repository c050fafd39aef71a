import { expectRefusal } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("attacks on the partner API with headers", () => {
  const attacker = createAttacker();
  const { getAuthorizationHeader, getClinicHeader, getOwnHeaders, createKeyHeader, postAppointment } = attacker;
  const getBranchHeader = (id: string) => `X-SERVICE-Branch-ID: ${id}`;

  const getOtherId = () => attacker.otherWorld.clinicId;
  /** Values of invalid clinic headers. */
  const clinicIds: [string, () => string[]][] = [
    ["no clinic header", () => []],
    ["an empty clinic header", () => [""]],
    ["a clinic header that is not a UUID", () => ["clinic"]],
    ["two clinic headers that name different clinics", () => [attacker.world.clinicId, getOtherId()]],
    ["two clinic headers that name the same clinic", () => [attacker.world.clinicId, attacker.world.clinicId]],
    ["two clinics in one clinic header", () => [`${attacker.world.clinicId}, ${getOtherId()}`]],
    ["another header in the clinic header", () => [`${attacker.world.clinicId}%0d%0aX-SERVICE-Branch-ID: x`]],
    ["SQL in the clinic header", () => ["' OR '1'='1"]],
    ["an object in the clinic header", () => [`{"$ne":null}`]],
    ["30 KB in the clinic header", () => ["a".repeat(30_000)]],
  ];
  const getForeignToken = () => `Authorization: Bearer ${attacker.otherWorld.token}`;
  const getBranchHeaders = () => [attacker.world.branchId, attacker.world.otherBranchId].map(getBranchHeader);
  /** Name, expected status, expected error, and headers. The headers are added to an otherwise valid request. */
  const cases: [string, number, string, () => string[]][] = [
    ...clinicIds.map(([caseName, getIds]): (typeof cases)[number] => {
      return [caseName, 403, "clinic_header_invalid", () => getIds().map((id) => getClinicHeader(id))];
    }),
    ["two equal Authorization headers", 401, "invalid_token", getOwnHeaders],
    ["two different Authorization headers", 401, "invalid_token", () => [getClinicHeader(), getForeignToken()]],
    ["two branch headers", 403, "branch_denied", () => [getClinicHeader(), ...getBranchHeaders()]],
    ["two Idempotency-Key headers", 422, "validation_failed", () => [getClinicHeader(), createKeyHeader()]],
    ["two Content-Length headers", 400, "malformed_request", () => [getClinicHeader(), "Content-Length: 1"]],
  ];
  for (const [caseName, status, code, getHeaders] of cases) {
    it(`a request with ${caseName} gets ${status} ${code}`, async () => {
      const headers = [getAuthorizationHeader(), ...getHeaders(), createKeyHeader(), JSON_TYPE];
      expectRefusal(await postAppointment(headers), status, code);
    });
  }

  it("a request with a token of 40 KB gets 431 headers_too_large", async () => {
    const authorization = `Authorization: Bearer ${"a".repeat(40_000)}`;
    expectRefusal(await postAppointment([authorization, getClinicHeader()]), 431, "headers_too_large");
  });
});
