/**
 * Entry of a bundle with the code that books places. Each import of the bundle has its own queues of changes, so it
 * acts as a separate process.
 */
export { handle } from "../../../command/handling/handle.ts";
export { createReservingLog } from "../../../command/scheduling/reserving-log.ts";
export {
  allocateResource,
  appointmentAggregate,
  cancelAppointment,
  releaseResource,
  rescheduleAppointment,
} from "../../../shared/domain/appointment/appointment.ts";
export { holdAggregate, placeHold } from "../../../shared/domain/clinic/hold.ts";
export { DomainError } from "../../../shared/domain/domain-error.ts";
export { LogUnavailableError, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
