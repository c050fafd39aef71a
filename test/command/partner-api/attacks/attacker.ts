import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  createPartnerWorld,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
} from "../../../support/partner.ts";
import { sendOneRequest, toRequest } from "../../../support/raw-http.ts";
import { useResource } from "../../../support/resources.ts";

export const JSON_TYPE = "Content-Type: application/json";

/**
 * Creates two partners of the command service for a test suite: an attacker, and a partner whose data it attacks. They
 * exist after the `before` hook. After each test, checks that the service is live.
 */
export function createAttacker() {
  const command = useResource(startTestCommandService);
  let world: PartnerWorld;
  let otherWorld: PartnerWorld;

  before(async () => {
    [world, otherWorld] = await Promise.all([createPartnerWorld(command), createPartnerWorld(command)]);
  });
  afterEach("the service is live, and Object.prototype is unchanged", async () => {
    expect((await sendRequest("GET", `${command.url}/health/live`)).status).to.equal(200);
    expect(Object.keys(Object.prototype)).to.deep.equal([]);
  });

  /** Returns a valid body of POST /appointments, with the given fields replaced. */
  const createBody = (overrides: Record<string, unknown> = {}) => ({
    ...{ branchId: world.branchId, animalId: world.animalId, scheduledAt: "2099-05-04T10:00:00Z" },
    ...overrides,
  });
  const getAuthorizationHeader = () => `Authorization: Bearer ${world.token}`;
  const getClinicHeader = (id = world.clinicId) => `X-SERVICE-Clinic-ID: ${id}`;
  /** @param methodAndTarget method and target of the request line */
  const send = (methodAndTarget: string, headers: string[], body: string | Buffer = "") =>
    sendOneRequest(command.url, toRequest(`${methodAndTarget} HTTP/1.1`, headers, body));
  return {
    command,
    get world() {
      return world;
    },
    get otherWorld() {
      return otherWorld;
    },
    ...{ createBody, getAuthorizationHeader, getClinicHeader, send },
    /** Returns headers with the attacker's token and clinic. */
    getOwnHeaders: () => [getAuthorizationHeader(), getClinicHeader()],
    createKeyHeader: () => `Idempotency-Key: ${randomUUID()}`,
    /** Sends POST /appointments. Default: a valid body. */
    postAppointment: (headers: string[], body: string | Buffer = JSON.stringify(createBody())) =>
      send("POST /production/v1/appointments", headers, body),
  };
}
