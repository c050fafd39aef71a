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

/** Every portal user of the demo data. The last one selects a clinic in the very last step. */
export function demoPortalUsers(): DemoUser[] {
  return [...demoClinics.flatMap(demoUsers), ...demoUsers(sandboxClinic).slice(0, 1)];
}

/**
 * All steps of the demo data: phases in order; the chains within a phase do not depend on each other.
 *
 * @param now the time that the demo week is around, in milliseconds since 1970
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
    // One chain, so that the very last step says that all is there.
    [demoPortalUsers().flatMap((user) => select(user, now))],
  ];
}
