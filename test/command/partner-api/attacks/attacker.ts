import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  createPartnerWorld,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
  type TestCommand,
} from "../../../support/partner.ts";
import { type RawResponse, sendOneRequest, toRequest } from "../../../support/raw-http.ts";
import { useResource } from "../../../support/resources.ts";

export const JSON_TYPE = "Content-Type: application/json";

/**
 * A partner that attacks the command service, and the partner whose data it attacks. Available after the `before` hook
 * has run.
 */
export interface Attacker {
  readonly command: TestCommand;
  readonly world: PartnerWorld;
  readonly otherWorld: PartnerWorld;
  /** Returns a valid body of POST /appointments, with the given fields replaced. */
  createBody(overrides?: Record<string, unknown>): Record<string, unknown>;
  getAuthorizationHeader(): string;
  getClinicHeader(id?: string): string;
  /** Returns the headers that give the attacker access to its own clinic. */
  getOwnHeaders(): string[];
  /** Returns a header with a new idempotency key. */
  createKeyHeader(): string;
  /** @param methodAndTarget method and target of the request line */
  send(methodAndTarget: string, headers: string[], body?: string | Buffer): Promise<RawResponse>;
  /** Sends POST /appointments. Default: a valid body. */
  postAppointment(headers: string[], body?: string | Buffer): Promise<RawResponse>;
}

/** Creates an attacker for the calling suite. After each test, the service must still be live. */
export function createAttacker(): Attacker {
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

  const attacker: Attacker = {
    get command() {
      return command;
    },
    get world() {
      return world;
    },
    get otherWorld() {
      return otherWorld;
    },
    createBody: (overrides = {}) => ({
      branchId: world.branchId,
      animalId: world.animalId,
      scheduledAt: "2099-05-04T10:00:00Z",
      ...overrides,
    }),
    getAuthorizationHeader: () => `Authorization: Bearer ${world.token}`,
    getClinicHeader: (id = world.clinicId) => `X-SERVICE-Clinic-ID: ${id}`,
    getOwnHeaders: () => [attacker.getAuthorizationHeader(), attacker.getClinicHeader()],
    createKeyHeader: () => `Idempotency-Key: ${randomUUID()}`,
    send: (methodAndTarget, headers, body = "") =>
      sendOneRequest(command.url, toRequest(`${methodAndTarget} HTTP/1.1`, headers, body)),
    postAppointment: (headers, body = JSON.stringify(attacker.createBody())) =>
      attacker.send("POST /production/v1/appointments", headers, body),
  };
  return attacker;
}
