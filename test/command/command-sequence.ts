import { randomUUID } from "node:crypto";
import { handle } from "../../command/handling/handle.ts";
import { issueCredential } from "../../command/operations/application-operations.ts";
import { confirmAppointment, requestAppointment } from "../../command/operations/appointment-operations.ts";
import { registerAuditor } from "../../command/operations/auditor-operations.ts";
import { createExample } from "../../command/operations/command-example.ts";
import { staffCommands } from "../../command/operations/commands.ts";
import { registerOperator } from "../../command/operations/operator-operations.ts";
import { registerEndpoint } from "../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../shared/auth/secret-box.ts";
import * as consents from "../../shared/domain/clinic/animal-consent.ts";
import { animalConsentAggregate } from "../../shared/domain/clinic/animal-consent.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { createTestOperatorContext } from "../support/partner.ts";

/** A command with its input, as in an import file. */
export type Line = Record<string, unknown> & { command: string };

/** Ids of the last created objects, by the name of their field in the commands' input. */
export type Ids = Record<string, string>;

/** Commands that must run before `createOtherObjects`. */
export const FIRST_COMMANDS = ["clinic register", "branch open", "partner register"];

/** All other commands, in an order in which each of them changes something. */
export const OTHER_COMMANDS = [
  ...["clinic subscribe", "clinic entitle", "clinic set-booking-rules", "clinic suspend", "clinic reinstate"],
  ...["membership grant", "membership accept", "user select", "staff hire", "staff deactivate", "staff reactivate"],
  ...["customer register", "customer change", "animal register", "animal change", "animal weigh"],
  ...["service offer", "service reprice", "service withdraw", "service reinstate"],
  ...["resource add", "rule set", "rule remove", "appointment no-show", "appointment import", "appointment request"],
  ...["appointment confirm", "appointment reschedule", "appointment allocate", "appointment release"],
  ...["appointment check-in", "appointment wait", "appointment start", "appointment complete"],
  ...["appointment request", "appointment cancel", "hold place", "hold release"],
  ...["ticket issue", "ticket call", "ticket complete", "ticket issue", "ticket cancel", "ticket issue"],
  ...["ticket no-show", "resource retire", "partner revoke-credential", "partner issue-credential"],
  ...["partner approve-origin", "partner withdraw-origin", "installation request", "installation approve"],
  ...["animal link-code create", "animal link withdraw", "installation narrow", "installation agree-rate"],
  ...["endpoint disable", "endpoint enable", "endpoint replay", "endpoint rotate-secret", "webhooks test"],
  ...["endpoint revoke", "installation revoke", "partner revoke", "membership change", "membership revoke"],
  ...[
    "auditor revoke",
    "auditor register",
    "operator register",
    "operator revoke",
    "retention set",
    "retention remove",
    "clinic close",
  ],
];

/** Creates the line of a command from its example, with the current ids and with times of next year. */
export function createLine(name: string, ids: Ids): Line {
  const command = staffCommands.find((staffCommand) => staffCommand.name === name);
  if (!command) throw new Error(`there is no command ${name}`);
  const { creates } = command;
  if (creates !== undefined) ids[creates] = randomUUID();
  // The identity provider creates the ids of users.
  ids.userId ??= randomUUID();
  const input = { ...createExample(command), ...(creates !== undefined && { [creates]: ids[creates] }) };
  const entries = Object.entries(input).map(([field, value]) => {
    if (field.endsWith("Ids")) return [field, [ids[field.slice(0, -1)]]];
    if (field.endsWith("Id")) return [field, ids[field]];
    return [field, typeof value === "string" ? value.replace(/^2027-/, `${new Date().getFullYear() + 1}-`) : value];
  });
  // The clinic of the installation is in production.
  const environment = name === "partner register" ? { environment: "production" } : {};
  return { command: name, ...Object.fromEntries(entries), ...environment };
}

/** Creates objects that no importable command creates, and a confirmed appointment in the past. */
export async function createOtherObjects(log: EventLog, ids: Ids): Promise<void> {
  const { applicationId = "", clinicId = "", branchId = "" } = ids;
  const context = createTestOperatorContext();
  const owner = { applicationId, clinicId, environment: "production" as const };
  const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
  const registration = { owner, url: "https://hooks.example.com/a", events: ["appointment.created" as const] };
  ids.endpointId = (await registerEndpoint({ log, secretBox }, registration, context)).endpoint.id;
  ids.credentialId = (await issueCredential(log, { applicationId }, context)).credentialId;
  ids.auditorId = randomUUID();
  const auditor = { auditorId: ids.auditorId, name: "Ada", clinicIds: null, expiresAt: null };
  await registerAuditor(log, auditor, context);
  ids.operatorId = randomUUID();
  const operator = { operatorId: ids.operatorId, name: "Desk", clinicIds: null, commands: null, expiresAt: null };
  await registerOperator(log, operator, context);
  ids.appointmentId = randomUUID();
  const request = { appointmentId: ids.appointmentId, clinicId, branchId, scheduledAt: "2026-01-02T09:00:00.000Z" };
  const pastContext = createTestOperatorContext(Date.parse("2026-01-01T09:00:00Z"));
  await requestAppointment(log, request, pastContext);
  await confirmAppointment(log, request, pastContext);
}

/** Creates a link code for the animal, as `animal link-code create` does. */
export async function createTestLinkCode(log: EventLog, { animalId = "", clinicId = "", applicationId = "" }: Ids) {
  const expiresAt = toInstant(Date.now() + 3_600_000);
  const code = { animalId, clinicId, applicationId, linkId: randomUUID(), expiresAt };
  const decide = consents.createLinkCode({ ...code, covers: "appointments_read" });
  await handle(log, animalConsentAggregate, animalId, decide, { ...createTestOperatorContext(), clinicId });
}
