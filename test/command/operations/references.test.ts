import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createOperatorContext } from "../../../command/handling/operator.ts";
import {
  addResource,
  openBranch,
  registerClinic,
  retireResource,
} from "../../../command/operations/clinic-operations.ts";
import { issueTicket, placeHold } from "../../../command/operations/front-desk-operations.ts";
import {
  grantMembership,
  hireStaff,
  registerAnimal,
  registerCustomer,
} from "../../../command/operations/people-operations.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { registration } from "../../shared/domain/clinic/a-clinic.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { createTicket } from "./ticket.ts";

const context = createOperatorContext({ type: "operator", id: "test" }, Date.parse("2026-05-04T08:00:00Z"));

describe("references between the aggregates of a clinic", () => {
  let log: EventLog;
  let close: () => Promise<void>;
  const ownClinic = { clinicId: randomUUID(), branchId: randomUUID(), secondBranchId: randomUUID() };
  const otherClinic = { clinicId: randomUUID(), branchId: randomUUID(), secondBranchId: randomUUID() };

  before(async () => {
    const client = connectEventStore((await getTestServers()).eventstoreUrl, "test");
    log = createPlainLog(client);
    close = () => client.dispose();
    for (const { clinicId, branchId, secondBranchId } of [ownClinic, otherClinic]) {
      await registerClinic(log, { ...registration, clinicId }, context);
      await openBranch(log, { clinicId, branchId, name: "Main", city: null }, context);
      await openBranch(log, { clinicId, branchId: secondBranchId, name: "Second", city: null }, context);
    }
  });
  after(() => close());

  async function getRefusal(commandPromise: Promise<unknown>): Promise<string> {
    const error = await commandPromise.then(
      () => expect.fail("was not refused"),
      (error: unknown) => error,
    );
    expect(error).to.be.instanceOf(DomainError);
    return (error as DomainError).code;
  }

  const createCustomerInput = (clinicId: string) => ({
    customerId: randomUUID(),
    clinicId,
    fullName: "Ada",
    phone: null,
    email: null,
    city: null,
  });
  const createAnimalInput = (clinicId: string, customerId: string) => ({
    animalId: randomUUID(),
    clinicId,
    customerId,
    name: "Luna",
    species: "cat",
    breed: null,
    sex: null,
    birthDate: null,
    weightKg: null,
    microchip: null,
  });
  const createResourceInput = (clinicId: string, branchId: string) => ({
    resourceId: randomUUID(),
    clinicId,
    branchId,
    resourceType: "room",
    name: "Room",
    capacity: 1,
    timezone: null,
    metadata: {},
  });

  it("registering an animal is refused for a customer of another clinic", async () => {
    const foreignCustomer = createCustomerInput(otherClinic.clinicId);
    await registerCustomer(log, foreignCustomer, context);
    const animal = createAnimalInput(ownClinic.clinicId, foreignCustomer.customerId);
    expect(await getRefusal(registerAnimal(log, animal, context))).to.equal("customer_not_found");
  });

  it("granting a membership is refused for a staff member of another clinic", async () => {
    const { clinicId } = otherClinic;
    const person = { fullName: "Bo", email: null, userId: null, role: "assistant" as const };
    const staffId = randomUUID();
    await hireStaff(log, { staffId, clinicId, ...person }, context);
    const grant = {
      membershipId: randomUUID(),
      clinicId: ownClinic.clinicId,
      userId: randomUUID(),
      staffId,
      role: person.role,
      permissions: [],
      branchAccess: "all" as const,
      branchIds: [],
      acceptedAt: null,
    };
    expect(await getRefusal(grantMembership(log, grant, context))).to.equal("staff_member_not_found");
  });

  it("placing a hold is refused for a resource of another clinic or branch, and for a retired resource", async () => {
    const [foreignRoom, retiredRoom, branchRoom] = [
      createResourceInput(otherClinic.clinicId, otherClinic.branchId),
      createResourceInput(ownClinic.clinicId, ownClinic.branchId),
      createResourceInput(ownClinic.clinicId, ownClinic.secondBranchId),
    ];
    for (const resource of [foreignRoom, retiredRoom, branchRoom]) await addResource(log, resource, context);
    await retireResource(log, retiredRoom, context);
    const hold = {
      holdId: randomUUID(),
      clinicId: ownClinic.clinicId,
      branchId: ownClinic.branchId,
      startsAt: "2026-05-05T08:00:00.000Z",
      endsAt: "2026-05-05T09:00:00.000Z",
      expiresAt: "2026-05-05T07:00:00.000Z",
    };
    const getHoldRefusal = ({ resourceId }: { resourceId: string }) =>
      getRefusal(placeHold(log, { ...hold, resourceId }, context));
    expect(await getHoldRefusal(foreignRoom)).to.equal("resource_not_found");
    expect(await getHoldRefusal(branchRoom)).to.equal("resource_not_found");
    expect(await getHoldRefusal(retiredRoom)).to.equal("resource_retired");
  });

  it("issuing a ticket is refused for an animal of another clinic and for an unknown appointment", async () => {
    const customer = createCustomerInput(otherClinic.clinicId);
    const animal = createAnimalInput(otherClinic.clinicId, customer.customerId);
    await registerCustomer(log, customer, context);
    await registerAnimal(log, animal, context);
    const ticket = createTicket(ownClinic);
    const foreignTicket = { ...ticket, animalId: animal.animalId };
    expect(await getRefusal(issueTicket(log, foreignTicket, context))).to.equal("animal_not_found");
    const unknownTicket = { ...ticket, appointmentId: randomUUID() };
    expect(await getRefusal(issueTicket(log, unknownTicket, context))).to.equal("appointment_not_found");
  });
});
