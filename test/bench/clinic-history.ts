import { createHash } from "node:crypto";
import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../projection/checkpoints/checkpoint.ts";
import type { AnyReadModel, Row } from "../../projection/engine/read-model.ts";
import { upsertRows } from "../../projection/engine/rows.ts";
import { animals } from "../../projection/read-models/animals.ts";
import { appointments } from "../../projection/read-models/appointments.ts";
import { assignments } from "../../projection/read-models/assignments.ts";
import { customers } from "../../projection/read-models/customers.ts";
import { holds } from "../../projection/read-models/holds.ts";
import { queueTickets } from "../../projection/read-models/queue-tickets.ts";
import { resources } from "../../projection/read-models/resources.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";

const APPOINTMENTS_PER_DAY = 100;
const COMING_DAYS = 35;
/** Number of customers, each with one animal. The number is the same with any history, so only the history varies. */
const CUSTOMERS = 5_000;
const RESOURCES = 10;
const HOLDS = 100;
const TICKETS = 10;
const DURATION_MS = 1_800_000;
const DAY_MS = 86_400_000;
const ROWS_PER_WRITE = 2_000;

/**
 * Fills the read models directly with a clinic's past appointments, its appointments of the next 35 days, and related
 * rows. The number of future appointments does not depend on the history.
 *
 * @param history number of past appointments
 */
export async function fillClinic(
  admin: pg.Pool,
  { clinicId, branchId }: { clinicId: string; branchId: string },
  history: number,
): Promise<void> {
  const now = toInstant(Date.now());
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const customerOf = (n: number) => Math.abs(n) % CUSTOMERS;
  const startOf = (n: number) => {
    const inDay = ((n % APPOINTMENTS_PER_DAY) + APPOINTMENTS_PER_DAY) % APPOINTMENTS_PER_DAY;
    return today + Math.floor(n / APPOINTMENTS_PER_DAY) * DAY_MS + (70 + inDay) * 360_000;
  };
  const span = (n: number) => [toInstant(startOf(n)), toInstant(startOf(n) + DURATION_MS)] as const;
  const resourceOf = (n: number) => idOf("resource", Math.abs(n) % RESOURCES);
  const clinic = { clinic_id: clinicId };
  const branch = { ...clinic, branch_id: branchId };
  const times = { created_at: now, updated_at: now };
  const write = (model: unknown, from: number, to: number, row: (n: number) => Row) =>
    writeRows(admin, model as AnyReadModel, from, to, row);

  await write(resources, 0, RESOURCES, (n) => ({
    resource_id: idOf("resource", n),
    ...branch,
    ...{ resource_type: "room", name: `Room ${n}`, capacity: 1, timezone: "Europe/Istanbul" },
    ...{ status: "active", metadata: {}, longest_allocation_seconds: DURATION_MS / 1_000 },
  }));
  await write(customers, 0, CUSTOMERS, (n) => ({
    customer_id: idOf("customer", n),
    ...clinic,
    ...{ full_name: `Customer ${idOf("name", n)}`, phone: null, email: null, city: null },
    ...times,
  }));
  await write(animals, 0, CUSTOMERS, (n) => ({
    ...{ animal_id: idOf("animal", n), ...clinic, customer_id: idOf("customer", n) },
    ...{ name: `Animal ${n}`, species: "cat", breed: null, sex: null, birth_date: null },
    ...{ weight_kg: null, microchip: null, ...times },
  }));
  const coming = COMING_DAYS * APPOINTMENTS_PER_DAY;
  await write(appointments, -history, coming, (n) => ({
    appointment_id: idOf("appointment", n),
    ...branch,
    ...{ animal_id: idOf("animal", customerOf(n)), customer_id: idOf("customer", customerOf(n)) },
    ...{ application_id: null, scheduled_at: span(n)[0], duration_minutes: 30 },
    status: n < 0 ? "completed" : n < 20 ? "waiting" : "confirmed",
    ...{ reason: "Vaccination", notes: "Brings the vaccination card", revision: 3, ...times },
  }));
  await write(assignments, -history, coming, (n) => ({
    ...{ assignment_id: idOf("assignment", n), appointment_id: idOf("appointment", n) },
    ...{ resource_id: resourceOf(n), allocation_start: span(n)[0], allocation_end: span(n)[1] },
    status: "allocated",
  }));
  await write(queueTickets, -history, TICKETS, (n) => ({
    ...{ ticket_id: idOf("ticket", n), ...branch, appointment_id: idOf("appointment", n), visit_id: null },
    ...{ animal_id: idOf("animal", customerOf(n)), ticket_number: String(Math.abs(n)) },
    ...{ queue_date: span(n)[0].slice(0, 10), arrival_type: "scheduled", priority: "normal" },
    ...{ status: n < 0 ? "completed" : "waiting", estimated_wait_minutes: null, checked_in_at: now },
    ...{ called_at: null, completed_at: null, notes: null, updated_at: now },
  }));
  await write(holds, -history, HOLDS, (n) => ({
    ...{ hold_id: idOf("hold", n), ...branch, resource_id: resourceOf(n) },
    ...{ starts_at: span(n)[0], ends_at: span(n)[1], expires_at: span(n)[0], status: "active" },
  }));
  await admin.query("VACUUM ANALYZE");
}

async function writeRows(
  admin: pg.Pool,
  model: AnyReadModel,
  from: number,
  to: number,
  row: (n: number) => Row,
): Promise<void> {
  const connection = await admin.connect();
  try {
    for (let start = from; start < to; start += ROWS_PER_WRITE) {
      const length = Math.min(ROWS_PER_WRITE, to - start);
      const rows = Array.from({ length }, (_, index) => row(start + index));
      await upsertRows(connection, READ_MODEL_SCHEMA, model, rows);
    }
  } finally {
    connection.release();
  }
}

/** Returns the same UUID for the same number, so that rows can refer to each other. */
function idOf(kind: string, n: number): string {
  const hex = createHash("md5").update(`${kind} ${n}`).digest("hex");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
