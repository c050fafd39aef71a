import { z } from "zod";
import { type Appointment, appointmentStatuses } from "../appointment/appointment.ts";

/** An appointment as partners see it, in answers; webhook bodies leave the notes out. */
export const partnerAppointment = z.strictObject({
  id: z.uuid(),
  clinicId: z.uuid(),
  branchId: z.uuid(),
  animalId: z.uuid().nullable(),
  scheduledAt: z.iso.datetime(),
  durationMinutes: z.int(),
  status: z.enum(appointmentStatuses),
  notes: z.string().nullable(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});
export type PartnerAppointment = z.infer<typeof partnerAppointment>;

export function toPartnerAppointment(appointment: Appointment): PartnerAppointment {
  const {
    id,
    clinicId,
    branchId,
    animalId,
    scheduledAt,
    durationMinutes,
    status,
    notes,
    createdAt,
    updatedAt,
  } = appointment;
  return {
    id,
    clinicId,
    branchId,
    animalId,
    scheduledAt,
    durationMinutes,
    status,
    notes,
    createdAt,
    updatedAt,
  };
}
