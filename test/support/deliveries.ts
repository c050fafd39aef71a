import { randomUUID } from "node:crypto";
import type pg from "pg";

/** Values of a row in `webhooks.delivery`. Missing values have defaults. */
export interface DeliveryRow {
  deliveryId?: string;
  endpointId: string;
  /** Null if the endpoint belongs to the application without a clinic. */
  clinicId: string | null;
  branchId: string | null;
  animalId?: string;
  applicationId: string;
  environment?: "production" | "sandbox";
  status?: string;
  type?: string;
  appointmentId?: string | null;
  createdAt?: string;
}

/** Inserts a delivery as the dispatcher does, including the row of a pending delivery. @returns the delivery's id */
export async function insertDelivery(admin: pg.Pool, row: DeliveryRow): Promise<string> {
  const { deliveryId = randomUUID(), endpointId, clinicId, branchId, animalId = null, applicationId } = row;
  const { environment = "production", status = "failed", type = "appointment.created" } = row;
  const { createdAt = "2026-03-01T08:00:00.000Z", appointmentId = null } = row;
  await admin.query(
    `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, branch_id, application_id, environment,
         event_id, event_type, event_position, appointment_id, status, cause_id, correlation_id, next_attempt_at,
         created_at, updated_at, animal_id)
       VALUES ($1, $2, $3, $4, $5, $6, $7::uuid, $8, 0, $12, $9, $7, $7,
         CASE $9 WHEN 'pending' THEN $10::timestamptz END, $10, $10, $11)`,
    [
      ...[deliveryId, endpointId, clinicId, branchId, applicationId, environment, randomUUID(), type, status],
      ...[createdAt, animalId, appointmentId],
    ],
  );
  if (status === "pending")
    await admin.query(
      `INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, event_id, event_position,
           next_attempt_at, failed_attempt_count, attempt_count) VALUES ($1, $2, $3, gen_random_uuid(), 0, $4, $5, 0)`,
      [deliveryId, endpointId, branchId, createdAt, Math.round(Math.random())],
    );
  return deliveryId;
}

/** Inserts failed attempts of a delivery with the numbers from 1. */
export async function insertAttempts(
  admin: pg.Pool,
  deliveryId: string,
  count: number,
  answer = "oops",
): Promise<void> {
  await admin.query(
    `INSERT INTO webhooks.attempt (delivery_id, number, started_at, duration_ms, status_code, answer)
       SELECT delivery_id, n, created_at, 12, 500, $3 FROM webhooks.delivery, generate_series(1, $2::integer) n
        WHERE delivery_id = $1`,
    [deliveryId, count, answer],
  );
}
