import { z } from "zod";
import { notPersonal } from "../personal-data/declaration.ts";
import { defineCategory, type EventOf, finiteTransitions } from "./category.ts";
import { boundedText, instant, label, uuid } from "./fields.ts";

/**
 * Events of an operator that runs commands over HTTP: a clinic's own system. Only an unsalted SHA-256 (hex) of the
 * credential's secret is stored. That is sufficient, because the secret has 256 random bits. Stream id: id of the
 * operator.
 */
export const operatorStreams = defineCategory("operator", "operatorId", finiteTransitions, {
  OperatorRegistered: z.object({
    operatorId: uuid,
    name: notPersonal(label, "name of a system").describe("name of the system, not of a person"),
    secretHash: notPersonal(z.string().length(64), "hash of a random secret"),
    /** Clinics for which the operator may run commands; null for all clinics. */
    clinicIds: z.array(uuid).min(1).max(1_000).nullable().describe("ids of the clinics; default: all"),
    /** Commands that the operator may run; null for all commands that are offered over HTTP. */
    commands: z
      .array(notPersonal(boundedText(60), "name of a command"))
      .min(1)
      .nullable()
      .describe("names of the commands, such as appointment confirm; default: all"),
    /** Time at which the credential expires; null if it does not expire. */
    expiresAt: instant.nullable().describe("time at which the credential expires"),
  }),
  OperatorRevoked: z.object({ operatorId: uuid, reason: notPersonal(label.nullable(), "reason about a system") }),
});
export type OperatorEvent = EventOf<typeof operatorStreams>;
