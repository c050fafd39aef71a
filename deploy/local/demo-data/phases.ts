import { registerCustomers } from "./animals.ts";
import { demoApplications, install, sandboxClinic, setUpSandbox } from "./applications.ts";
import { type DemoClinic, demoClinics } from "./clinics.ts";
import { holds, ticketOf, walkIns } from "./front-desk.ts";
import { admit, type DemoUser, demoUsers, otherStaff, select } from "./people.ts";
import { addResources } from "./resources.ts";
import { offerServices, setUpClinic, suspendDemoClinic } from "./set-up-steps.ts";
import type { Chain } from "./steps.ts";
import { demoWeek } from "./week.ts";
import { appointmentSteps } from "./week-steps.ts";

/** Returns all portal users of the demo data. The last one selects a clinic in the last step. */
export function demoPortalUsers(): DemoUser[] {
  return [...demoClinics.flatMap(demoUsers), ...demoUsers(sandboxClinic).slice(0, 1)];
}

/**
 * Returns all steps of the demo data. Phases run in order; the chains within a phase are independent.
 *
 * @param now time in the middle of the demo week, in milliseconds since 1970
 */
export function demoPhases(now: number): Chain[][] {
  const each = (make: (clinic: DemoClinic) => Chain[]) => demoClinics.flatMap(make);
  return [
    [...demoClinics.map((clinic) => setUpClinic(clinic, now)), setUpSandbox(now)],
    [
      ...demoPortalUsers().map((user) => admit(user, now)),
      ...each((clinic) => [
        ...otherStaff(clinic, now),
        ...offerServices(clinic, now),
        ...addResources(clinic, now),
        ...registerCustomers(clinic, now),
      ]),
    ],
    [
      ...each((clinic) =>
        demoWeek(clinic, now).map((appointment) => [
          ...appointmentSteps(appointment, now),
          ...ticketOf(appointment, now),
        ]),
      ),
      ...each((clinic) => [...walkIns(clinic, now), ...holds(clinic, now)]),
      ...demoApplications
        .filter(({ environment }) => environment === "production")
        .map((application) => install(application, now)),
    ],
    demoClinics.map((clinic) => suspendDemoClinic(clinic, now)),
    // One chain, so that the last step shows that all others are done.
    [demoPortalUsers().flatMap((user) => select(user, now))],
  ];
}
