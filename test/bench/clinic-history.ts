import type pg from "pg";
import { deriveDemoId } from "../../deploy/local/demo-data/steps.ts";
import type { AnyReadModel, Row } from "../../projection/engine/read-model.ts";
import { upsertRows } from "../../projection/engine/rows.ts";
import { animals } from "../../projection/read-models/animals.ts";
import { appointments, assignments } from "../../projection/read-models/appointments.ts";
import { customers } from "../../projection/read-models/customers.ts";
import { queueTickets } from "../../projection/read-models/queue-tickets.ts";
import { holds, resources } from "../../projection/read-models/resources.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

const APPOINTMENTS_PER_DAY = 100;
const FUTURE_DAY_COUNT = 35;
/** Number of customers, each with one animal. Independent of the history's length. */
const CUSTOMER_COUNT = 5_000;
const RESOURCE_COUNT = 10;
const HOLD_COUNT = 100;
const TICKET_COUNT = 10;
const APPOINTMENT_DURATION_MS = 1_800_000;
const DAY_MS = 86_400_000;
const ROWS_PER_WRITE = 2_000;

/** Row type of a read model, inferred from the results of its event handlers. */
type RowOf<M extends { on: object }> = NonNullable<
  ReturnType<Extract<M["on"][keyof M["on"]], (...args: never[]) => unknown>>
>;

/**
 * Inserts rows of a clinic into the read models, without events. Only the number of past appointments depends on the
 * parameter: the appointments of the next 35 days and all related rows are the same for each history.
 *
 * @param historyLength number of past appointments
 */
export async function fillClinic(
  adminPool: pg.Pool,
  { clinicId, branchId }: { clinicId: string; branchId: string },
  historyLength: number,
): Promise<void> {
  const now = toInstant(Date.now());
  const todayMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const toCustomerNumber = (n: number) => Math.abs(n) % CUSTOMER_COUNT;
  const toStartMs = (n: number) => {
    const slotInDay = ((n % APPOINTMENTS_PER_DAY) + APPOINTMENTS_PER_DAY) % APPOINTMENTS_PER_DAY;
    return todayMs + Math.floor(n / APPOINTMENTS_PER_DAY) * DAY_MS + (70 + slotInDay) * 360_000;
  };
  const toSpan = (n: number) => [toInstant(toStartMs(n)), toInstant(toStartMs(n) + APPOINTMENT_DURATION_MS)] as const;
  const toResourceId = (n: number) => deriveDemoId("resource", Math.abs(n) % RESOURCE_COUNT);
  const clinicColumns = { clinic_id: clinicId };
  const branchColumns = { ...clinicColumns, branch_id: branchId };
  const timeColumns = { created_at: now, updated_at: now };
  const write = <M extends { on: object }>(model: M, from: number, to: number, createRow: (n: number) => RowOf<M>) =>
    writeRows(adminPool, model as unknown as AnyReadModel, from, to, createRow as (n: number) => Row);

  await write(resources, 0, RESOURCE_COUNT, (n) => ({
    resource_id: deriveDemoId("resource", n),
    ...branchColumns,
    resource_type: "room",
    name: `Room ${n}`,
    capacity: 1,
    timezone: "Europe/Istanbul",
    status: "active",
    metadata: {},
    longest_allocation_seconds: APPOINTMENT_DURATION_MS / 1_000,
  }));
  await write(customers, 0, CUSTOMER_COUNT, (n) => ({
    customer_id: deriveDemoId("customer", n),
    ...clinicColumns,
    full_name: `Customer ${deriveDemoId("name", n)}`,
    phone: null,
    email: null,
    city: null,
    ...timeColumns,
  }));
  await write(animals, 0, CUSTOMER_COUNT, (n) => ({
    animal_id: deriveDemoId("animal", n),
    ...clinicColumns,
    customer_id: deriveDemoId("customer", n),
    name: `Animal ${n}`,
    species: "cat",
    breed: null,
    sex: null,
    birth_date: null,
    weight_kg: null,
    microchip: null,
    ...timeColumns,
  }));
  const futureAppointmentCount = FUTURE_DAY_COUNT * APPOINTMENTS_PER_DAY;
  await write(appointments, -historyLength, futureAppointmentCount, (n) => ({
    appointment_id: deriveDemoId("appointment", n),
    ...branchColumns,
    animal_id: deriveDemoId("animal", toCustomerNumber(n)),
    customer_id: deriveDemoId("customer", toCustomerNumber(n)),
    application_id: null,
    scheduled_at: toSpan(n)[0],
    former_times: [],
    duration_minutes: 30,
    status: n < 0 ? "completed" : n < 20 ? "waiting" : "confirmed",
    reason: "Vaccination",
    notes: "Brings the vaccination card",
    revision: 3,
    position: String(n + historyLength),
    event_id: deriveDemoId("event", n),
    ...timeColumns,
    resources: [
      {
        id: toResourceId(n),
        type: "room",
        name: `Room ${Math.abs(n) % RESOURCE_COUNT}`,
        status: "allocated" as const,
        allocationStart: toSpan(n)[0],
        allocationEnd: toSpan(n)[1],
        assignmentId: deriveDemoId("assignment", n),
      },
    ],
  }));
  await write(assignments, -historyLength, futureAppointmentCount, (n) => ({
    assignment_id: deriveDemoId("assignment", n),
    clinic_id: branchColumns.clinic_id,
    appointment_id: deriveDemoId("appointment", n),
    resource_id: toResourceId(n),
    allocation_start: toSpan(n)[0],
    allocation_end: toSpan(n)[1],
    status: "allocated",
  }));
  await write(queueTickets, -historyLength, TICKET_COUNT, (n) => ({
    ticket_id: deriveDemoId("ticket", n),
    ...branchColumns,
    appointment_id: deriveDemoId("appointment", n),
    visit_id: null,
    animal_id: deriveDemoId("animal", toCustomerNumber(n)),
    customer_id: deriveDemoId("customer", toCustomerNumber(n)),
    ticket_number: String(Math.abs(n)),
    queue_date: toSpan(n)[0].slice(0, 10),
    arrival_type: "scheduled",
    priority: "normal",
    status: n < 0 ? "completed" : "waiting",
    estimated_wait_minutes: null,
    checked_in_at: now,
    called_at: null,
    completed_at: null,
    notes: null,
    updated_at: now,
  }));
  await write(holds, -historyLength, HOLD_COUNT, (n) => ({
    hold_id: deriveDemoId("hold", n),
    ...branchColumns,
    resource_id: toResourceId(n),
    starts_at: toSpan(n)[0],
    ends_at: toSpan(n)[1],
    expires_at: toSpan(n)[0],
    status: "active",
  }));
  await adminPool.query("VACUUM ANALYZE");
}

async function writeRows(
  adminPool: pg.Pool,
  model: AnyReadModel,
  fromNumber: number,
  toNumber: number,
  createRow: (n: number) => Row,
): Promise<void> {
  const connection = await adminPool.connect();
  try {
    for (let start = fromNumber; start < toNumber; start += ROWS_PER_WRITE) {
      const length = Math.min(ROWS_PER_WRITE, toNumber - start);
      const rows = Array.from({ length }, (_, index) => createRow(start + index));
      await upsertRows({ client: connection, schema: READ_MODEL_SCHEMA }, model, rows);
    }
  } finally {
    connection.release();
  }
}
