import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  ask,
  createPartnerWorld,
  type PartnerWorld,
  startTestCommand,
  type TestCommand,
} from "../../../support/partner.ts";
import { type RawResponse, requestText, sendOne } from "../../../support/raw-http.ts";

export const JSON_TYPE = "Content-Type: application/json";

/** A partner who attacks the command service, and another one who is attacked; there once `before` has run. */
export interface Attacker {
  readonly command: TestCommand;
  readonly world: PartnerWorld;
  readonly other: PartnerWorld;
  /** A good request's body, but for what is replaced. */
  appointment(more?: Record<string, unknown>): Record<string, unknown>;
  authorization(): string;
  clinicHeader(id?: string): string;
  /** The headers that let the attacker in at its own clinic. */
  own(): string[];
  /** An idempotency key of its own. */
  key(): string;
  /** @param start method and target */
  send(start: string, headers: string[], body?: string | Buffer): Promise<RawResponse>;
  /** POST /appointments, with a good body if none is given. */
  create(headers: string[], body?: string | Buffer): Promise<RawResponse>;
}

/** Sets an attacker up for the suite that calls this; after each test the service must still be well. */
export function createAttacker(): Attacker {
  let command: TestCommand;
  let world: PartnerWorld;
  let other: PartnerWorld;

  before(async () => {
    command = await startTestCommand();
    [world, other] = await Promise.all([createPartnerWorld(command), createPartnerWorld(command)]);
  });
  after(() => command.stop());
  afterEach("the process goes on, and prototypes are as they were", async () => {
    expect((await ask("GET", `${command.url}/health/live`)).status).to.equal(200);
    expect(Object.keys(Object.prototype)).to.deep.equal([]);
  });

  const attacker: Attacker = {
    get command() {
      return command;
    },
    get world() {
      return world;
    },
    get other() {
      return other;
    },
    appointment: (more = {}) => ({
      branchId: world.branchId,
      animalId: world.animalId,
      scheduledAt: "2099-05-04T10:00:00Z",
      ...more,
    }),
    authorization: () => `Authorization: Bearer ${world.token}`,
    clinicHeader: (id = world.clinicId) => `X-SERVICE-Clinic-ID: ${id}`,
    own: () => [attacker.authorization(), attacker.clinicHeader()],
    key: () => `Idempotency-Key: ${randomUUID()}`,
    send: (start, headers, body = "") =>
      sendOne(command.url, requestText(`${start} HTTP/1.1`, headers, body)),
    create: (headers, body = JSON.stringify(attacker.appointment())) =>
      attacker.send("POST /production/v1/appointments", headers, body),
  };
  return attacker;
}
