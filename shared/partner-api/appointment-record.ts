import { z } from "zod";
import { type Appointment, appointmentStatuses } from "../domain/appointment/appointment.ts";

/** Schema of an appointment in the partner API. Webhook bodies omit the notes. */
export const partnerAppointment = z.strictObject({
  id: z.uuid(),
  clinicId: z.uuid(),
  branchId: z.uuid(),
  animalId: z.uuid().nullable(),
  scheduledAt: z.iso.datetime(),
  durationMinutes: z.int(),
  status: z.enum(appointmentStatuses),
  notes: z.string().nullable(),
  revision: z
    .int()
    .min(0)
    .describe(
      "Revision of the appointment. Each change increases it by one or more. If you have two records of an appointment, the record with the higher revision is newer.",
    ),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});
export type PartnerAppointment = z.infer<typeof partnerAppointment>;

/**
 * Converts an appointment to its form in the partner API.
 *
 * @param revision revision of the appointment's last event
 */
export function toPartnerAppointment(appointment: Appointment, revision: bigint): PartnerAppointment {
  const { id, clinicId, branchId, animalId, scheduledAt, durationMinutes, status, notes } = appointment;
  return {
    ...{ id, clinicId, branchId, animalId, scheduledAt, durationMinutes, status, notes },
    ...{ revision: Number(revision), createdAt: appointment.createdAt, updatedAt: appointment.updatedAt },
  };
}
