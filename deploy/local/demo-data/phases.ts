import { registerCustomers } from "./animals.ts";
import { demoApplications, installApplication, sandboxClinic, setUpSandbox } from "./applications.ts";
import { type DemoClinic, demoClinics } from "./clinics.ts";
import { addHolds, addTicket, addWalkIns } from "./front-desk.ts";
import { addOtherStaff, addPortalUser, createDemoUsers, type DemoUser, selectUserClinic } from "./people.ts";
import { addResources } from "./resources.ts";
import { offerServices, setUpClinic, suspendDemoClinic } from "./set-up-steps.ts";
import type { StepSequence } from "./steps.ts";
import { createWeekAppointments } from "./week.ts";
import { createAppointment } from "./week-steps.ts";

/**
 * Returns all portal users of the demo data. The last step of the demo data selects a clinic for the last user in this
 * list.
 */
export function listPortalUsers(): DemoUser[] {
  return [...demoClinics.flatMap(createDemoUsers), ...createDemoUsers(sandboxClinic).slice(0, 1)];
}

/**
 * Returns all steps of the demo data. The phases run in order. The sequences within a phase are independent of each other.
 *
 * @param now time in the middle of the demo week, in milliseconds since 1970
 */
export function buildPhases(now: number): StepSequence[][] {
  const flatMapClinics = (create: (clinic: DemoClinic) => StepSequence[]) => demoClinics.flatMap(create);
  return [
    [...demoClinics.map((clinic) => setUpClinic(clinic, now)), setUpSandbox(now)],
    [
      ...listPortalUsers().map((user) => addPortalUser(user, now)),
      ...flatMapClinics((clinic) => [
        ...addOtherStaff(clinic, now),
        ...offerServices(clinic, now),
        ...addResources(clinic, now),
        ...registerCustomers(clinic, now),
      ]),
    ],
    [
      ...flatMapClinics((clinic) =>
        createWeekAppointments(clinic, now).map((appointment) => [
          ...createAppointment(appointment, now),
          ...addTicket(appointment, now),
        ]),
      ),
      ...flatMapClinics((clinic) => [...addWalkIns(clinic, now), ...addHolds(clinic, now)]),
      ...demoApplications
        .filter(({ environment }) => environment === "production")
        .map((application) => installApplication(application, now)),
    ],
    demoClinics.map((clinic) => suspendDemoClinic(clinic, now)),
    // These steps are one sequence, so the last step runs after all others. `isSeeded` depends on this order.
    [listPortalUsers().flatMap((user) => selectUserClinic(user, now))],
  ];
}
