import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  cancelAppointment,
  importAppointment,
  requestAppointment,
  rescheduleAppointment,
} from "../../../../command/operations/appointment-operations.ts";
import { registerAuditor, revokeAuditor } from "../../../../command/operations/auditor-operations.ts";
import {
  changeAnimal,
  changeCustomer,
  registerAnimal,
  registerCustomer,
} from "../../../../command/operations/customer-operations.ts";
import { issueTicket } from "../../../../command/operations/front-desk-operations.ts";
import { hireStaff, revokeMembership } from "../../../../command/operations/people-operations.ts";
import { recordErasure } from "../../../../command/operations/personal-data/record-erasure.ts";
import { DomainError } from "../../../../shared/domain/domain-error.ts";
import { detailDefaults } from "../../../../shared/domain/events/appointment.ts";
import { categories } from "../../../../shared/domain/events/catalog.ts";
import type { MembershipEvent } from "../../../../shared/domain/events/people.ts";
import { findPersonalFields } from "../../../../shared/domain/personal-data/personal-fields.ts";
import type { EventLog } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { createClinic, createTestOperatorContext, type TestClinic } from "../../../support/partner.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getTestServers } from "../../../support/stack.ts";
import { createTicket } from "../ticket.ts";

const context = createTestOperatorContext();
const contact = { fullName: "Ben Ek", phone: null, email: null, city: null };
const animalDetails = { name: "Rex", species: "dog", breed: null, sex: null, birthDate: null, microchip: null };
const erasure = { categories: ["contact" as const], cause: "request" as const, reason: "Request 17" };

describe("commands about erased persons", () => {
  let log: EventLog;
  let clinic: TestClinic;
  let userId: string;
  const [staffId, auditorId, appointmentId] = [randomUUID(), randomUUID(), randomUUID()];

  before(async () => {
    log = createPlainLog(connectToLog((await getTestServers()).eventstoreUrl));
    clinic = await createClinic(log);
    const { clinicId, customerId: id, membershipId } = clinic;
    const [granted] = await log.read<MembershipEvent & { type: "MembershipGranted" }>(`membership-${membershipId}`);
    userId = granted!.data.userId;
    await requestAppointment(log, createVisit(appointmentId), context);
    await hireStaff(log, createHire(), context);
    await registerAuditor(log, createAuditor(), context);
    await revokeAuditor(log, { auditorId, reason: null }, context);
    await recordErasure.customer(log, { id, clinicId, ...erasure }, context);
    await recordErasure.staff(log, { id: staffId, clinicId, ...erasure }, context);
    await recordErasure.portalUser(log, { id: userId, ...erasure }, context);
    await recordErasure.auditor(log, { id: auditorId, ...erasure }, context);
  });

  const createHire = () => ({
    staffId,
    clinicId: clinic.clinicId,
    userId: null,
    fullName: "Zoe Lind",
    email: null,
    role: "owner" as const,
  });
  const createAuditor = () => ({ auditorId, name: "Ada Berg", clinicIds: null, expiresAt: null });
  function createVisit(id: string) {
    const { clinicId, branchId, animalId } = clinic;
    const scheduledAt = new Date(context.now + 86_400_000).toISOString();
    const visit = { appointmentId: id, clinicId, branchId, animalId, scheduledAt, durationMinutes: 30 };
    return { ...visit, reason: "Limps", notes: null };
  }
  /**
   * For each event type, a command that would record it for an erased person. `code` is the expected error code; null
   * if the command succeeds without new events.
   */
  const commandsByType: Record<string, { run: () => Promise<{ events: unknown[] }>; code: string | null }> = {
    MembershipRevoked: {
      run: () => revokeMembership(log, { ...clinic, reason: "Left" }, context),
      code: "portal_user_erased",
    },
    StaffMemberHired: { run: () => hireStaff(log, createHire(), context), code: "staff_member_erased" },
    CustomerRegistered: {
      run: () =>
        registerCustomer(log, { ...contact, customerId: clinic.customerId, clinicId: clinic.clinicId }, context),
      code: "customer_erased",
    },
    CustomerDetailsChanged: {
      run: () => changeCustomer(log, { ...clinic, city: "Zug" }, context),
      code: "customer_erased",
    },
    AnimalRegistered: {
      run: () => {
        const { clinicId, customerId } = clinic;
        const registration = { animalId: randomUUID(), clinicId, customerId, ...animalDetails, weightKg: null };
        return registerAnimal(log, registration, context);
      },
      code: "customer_erased",
    },
    AnimalDetailsChanged: {
      run: () => changeAnimal(log, { ...clinic, name: "Rex" }, context),
      code: "customer_erased",
    },
    AppointmentRequested: {
      run: () => requestAppointment(log, createVisit(randomUUID()), context),
      code: "validation_failed",
    },
    AppointmentImported: {
      run: () => {
        const imported = { status: "confirmed" as const, requestedAt: null, statusAt: null, resourceIds: [] };
        return importAppointment(log, { ...detailDefaults, ...createVisit(randomUUID()), ...imported }, context);
      },
      code: "validation_failed",
    },
    AppointmentCancelled: {
      run: () => cancelAppointment(log, { clinicId: clinic.clinicId, appointmentId, reason: "Moved" }, context),
      code: "customer_erased",
    },
    AppointmentRescheduled: {
      run: () => {
        const { clinicId } = clinic;
        const scheduledAt = new Date(context.now + 2 * 86_400_000).toISOString();
        return rescheduleAppointment(log, { clinicId, appointmentId, scheduledAt, reason: "Moved" }, context);
      },
      code: "customer_erased",
    },
    QueueTicketIssued: {
      run: () => issueTicket(log, { ...createTicket(clinic), animalId: clinic.animalId, notes: "Bites" }, context),
      code: "customer_erased",
    },
    AuditorRegistered: { run: () => registerAuditor(log, createAuditor(), context), code: "auditor_exists" },
    AuditorRevoked: { run: () => revokeAuditor(log, { auditorId, reason: "Closed" }, context), code: null },
  };

  it("every event type with personal fields has a command in this test", () => {
    const types = categories.flatMap(({ events }) => Object.keys(events)).filter((type) => findPersonalFields(type));
    expect(Object.keys(commandsByType)).to.have.members(types);
  });

  for (const [type, { run, code }] of Object.entries(commandsByType))
    it(`${type} records no personal data of an erased person`, async () => {
      const result = await run().catch((error: unknown) => error);
      if (code === null) expect(result).to.deep.include({ events: [] });
      else expect(result).to.be.instanceOf(DomainError).with.property("code", code);
    });

  it("an appointment of an erased customer and a membership of an erased user can be ended without a reason", async () => {
    const { clinicId, membershipId } = clinic;
    const error = await cancelAppointment(log, { clinicId, appointmentId, reason: "Moved" }, context).catch(
      (error: unknown) => error,
    );
    const message = "must be omitted, because the customer's personal data was erased";
    expect(error).to.deep.include({ message: `reason ${message}`, details: [{ path: "reason", message }] });
    const cancellation = await cancelAppointment(log, { clinicId, appointmentId, reason: null }, context);
    expect(cancellation.state?.status).to.equal("cancelled");
    const revocation = await revokeMembership(log, { clinicId, membershipId, reason: null }, context);
    expect(revocation.state?.status).to.equal("revoked");
  });
});
