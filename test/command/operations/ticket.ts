import { randomUUID } from "node:crypto";

export const createTicket = ({ clinicId, branchId }: { clinicId: string; branchId: string }) => ({
  ticketId: randomUUID(),
  clinicId,
  branchId,
  appointmentId: null as string | null,
  animalId: null as string | null,
  visitId: null,
  ticketNumber: "A7",
  queueDate: "2026-05-04",
  arrivalType: "walk_in",
  priority: "normal",
  estimatedWaitMinutes: null,
  notes: null as string | null,
});
