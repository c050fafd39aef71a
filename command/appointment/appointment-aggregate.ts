import { type Appointment, evolveAppointment } from "../../shared/appointment/appointment.ts";
import { appointmentCategory } from "../../shared/events/appointment.ts";
import type { Aggregate } from "../handle.ts";

export const appointmentAggregate: Aggregate<typeof appointmentCategory, Appointment> = {
  category: appointmentCategory,
  evolve: evolveAppointment,
};
