import { expect } from "chai";
import * as animals from "../../../../shared/domain/clinic/animal.ts";
import { animalAggregate } from "../../../../shared/domain/clinic/animal.ts";
import * as customers from "../../../../shared/domain/clinic/customer.ts";
import { type CustomerDetails, customerAggregate } from "../../../../shared/domain/clinic/customer.ts";
import * as portalUsers from "../../../../shared/domain/clinic/portal-user.ts";
import { portalUserAggregate } from "../../../../shared/domain/clinic/portal-user.ts";
import * as staff from "../../../../shared/domain/clinic/staff.ts";
import { staffAggregate } from "../../../../shared/domain/clinic/staff.ts";
import type {
  AnimalEvent,
  CustomerEvent,
  PortalUserEvent,
  StaffEvent,
} from "../../../../shared/domain/events/people.ts";
import type { Erasure } from "../../../../shared/domain/personal-data/erasure.ts";
import { given } from "../../../support/given.ts";
import { clinic } from "./a-clinic.ts";
import { clinicId, mainBranchId, otherClinicId, otherId, someId } from "./ids.ts";

const givenStaff = (...history: StaffEvent[]) => given(staffAggregate, ...history);
const givenCustomer = (...history: CustomerEvent[]) => given(customerAggregate, ...history);
const givenAnimal = (...history: AnimalEvent[]) => given(animalAggregate, ...history);
const givenUser = (...history: PortalUserEvent[]) => given(portalUserAggregate, ...history);

const erasure: Erasure = { categories: ["contact"], cause: "request", reason: "Request 17" };

describe("staff", () => {
  const hireInput = {
    staffId: someId,
    clinicId,
    userId: null,
    fullName: "Ada",
    email: null,
    role: "assistant" as const,
  };
  const hired: StaffEvent = { type: "StaffMemberHired", data: hireInput };
  const deactivated: StaffEvent = { type: "StaffMemberDeactivated", data: { staffId: someId } };
  const reactivated: StaffEvent = { type: "StaffMemberReactivated", data: { staffId: someId } };
  const target = { clinicId, staffId: someId };

  it("repeating the hiring of a staff member changes nothing", () => {
    givenStaff().when(staff.hireStaff(hireInput), [hired]);
    givenStaff(hired, deactivated).when(staff.hireStaff(hireInput), []);
    givenStaff(hired).when(staff.hireStaff({ ...hireInput, role: "owner" }), "staff_member_exists");
  });
  it("deactivating an inactive staff member or reactivating an active staff member changes nothing", () => {
    givenStaff(hired).whenOnce(staff.deactivateStaff(target), deactivated);
    givenStaff(hired, deactivated).when(staff.reactivateStaff(target), [reactivated]);
    givenStaff(hired).when(staff.reactivateStaff(target), []);
  });
  it("a staff member of another clinic is reported as missing", () => {
    const foreignTarget = { ...target, clinicId: otherClinicId };
    givenStaff(hired).when(staff.deactivateStaff(foreignTarget), "staff_member_not_found");
    givenStaff().when(staff.reactivateStaff(target), "staff_member_not_found");
    givenStaff(hired).when(staff.eraseStaff({ ...foreignTarget, ...erasure }), "staff_member_not_found");
  });
  it("a staff member can be deactivated but not reactivated after an erasure of the contact data", () => {
    const erased: StaffEvent = { type: "StaffDataErased", data: { staffId: someId, ...erasure } };
    const erase = staff.eraseStaff({ ...target, ...erasure });
    givenStaff(hired).whenOnce(erase, erased);
    givenStaff(hired, erased).when(staff.deactivateStaff(target), [deactivated]);
    givenStaff(hired, erased, deactivated).when(staff.reactivateStaff(target), "staff_member_erased");
    givenStaff(hired, erased).when(staff.hireStaff(hireInput), "staff_member_erased");
  });
});

describe("a customer", () => {
  const details: CustomerDetails = { fullName: "Ada", phone: "1", email: null, city: null };
  const registration = { customerId: someId, clinicId, ...details };
  const registered: CustomerEvent = { type: "CustomerRegistered", data: registration };
  const changeDetails = (details: Partial<CustomerDetails>, requestedClinicId = clinicId) =>
    customers.changeCustomer({ clinicId: requestedClinicId, customerId: someId, ...details });

  it("repeating a customer's registration changes nothing, even after a change of details", () => {
    const detailsChanged: CustomerEvent = {
      type: "CustomerDetailsChanged",
      data: { customerId: someId, ...details, phone: "2" },
    };
    givenCustomer().when(customers.registerCustomer(registration), [registered]);
    givenCustomer(registered, detailsChanged).when(customers.registerCustomer(registration), []);
  });
  it("a customer of another clinic is reported as missing", () => {
    const otherInput = { ...registration, clinicId: otherClinicId };
    givenCustomer(registered).when(customers.registerCustomer(otherInput), "customer_exists");
    givenCustomer(registered).when(changeDetails({ phone: "2" }, otherClinicId), "customer_not_found");
  });
  it("changing a customer's details leaves omitted details unchanged", () => {
    givenCustomer(registered).when(changeDetails({ phone: null }), [
      { type: "CustomerDetailsChanged", data: { customerId: someId, ...details, phone: null } },
    ]);
    givenCustomer(registered).when(changeDetails({ phone: "1" }), []);
  });
  const erase = (categories: Erasure["categories"], requestedClinicId = clinicId) =>
    customers.eraseCustomer({ clinicId: requestedClinicId, customerId: someId, ...erasure, categories });
  const createErasedEvent = (categories: Erasure["categories"]): CustomerEvent => ({
    type: "CustomerDataErased",
    data: { customerId: someId, ...erasure, categories },
  });

  it("a customer of another clinic cannot be erased", () => {
    givenCustomer(registered).when(erase(["contact"], otherClinicId), "customer_not_found");
    givenCustomer().when(erase(["contact"]), "customer_not_found");
  });
  it("a customer cannot be changed after an erasure of the contact data, and repeating the erasure changes nothing", () => {
    const erased = createErasedEvent(["contact", "notes"]);
    givenCustomer(registered).when(erase(["contact", "notes"]), [erased]);
    givenCustomer(registered, erased).when(changeDetails({ phone: "2" }), "customer_erased");
    givenCustomer(registered, erased).when(customers.registerCustomer(registration), "customer_erased");
    givenCustomer(registered, erased).when(erase(["notes"]), []);
    givenCustomer(registered, erased).when(erase(["animal", "contact"]), [createErasedEvent(["animal", "contact"])]);
  });
  it("notes that were recorded after an erasure of notes can be erased after an erasure of the contact data", () => {
    const [erasedNotes, erasedContact] = [createErasedEvent(["notes"]), createErasedEvent(["contact"])];
    givenCustomer(registered, erasedNotes, erasedContact).when(erase(["notes"]), [erasedNotes]);
    givenCustomer(registered, erasedNotes, erasedContact, erasedNotes).when(erase(["notes", "contact"]), []);
    givenCustomer(registered, erasedContact, createErasedEvent(["animal", "contact"])).when(erase(["animal"]), []);
  });
  it("notes can be erased several times, because a customer with contact data can get new notes", () => {
    const erased = createErasedEvent(["notes"]);
    givenCustomer(registered, erased).when(erase(["notes"]), [erased]);
    const detailsChanged: CustomerEvent = {
      type: "CustomerDetailsChanged",
      data: { customerId: someId, ...details, phone: "2" },
    };
    givenCustomer(registered, erased).when(changeDetails({ phone: "2" }), [detailsChanged]);
  });
});

describe("an animal", () => {
  const details = { name: "Luna", species: "cat", breed: null, sex: null, birthDate: "2020-02-29", microchip: null };
  const registration = { animalId: someId, clinicId, customerId: otherId, ...details, weightKg: 4.2 };
  const registered: AnimalEvent = { type: "AnimalRegistered", data: registration };
  const target = { clinicId, animalId: someId };

  it("repeating an animal's registration changes nothing", () => {
    givenAnimal().whenOnce(animals.registerAnimal(registration), registered);
    givenAnimal(registered).when(animals.registerAnimal({ ...registration, customerId: someId }), "animal_exists");
  });
  it("changing an animal's details leaves omitted details unchanged", () => {
    givenAnimal(registered).when(animals.changeAnimal({ ...target, breed: "Maine Coon" }), [
      { type: "AnimalDetailsChanged", data: { animalId: someId, ...details, breed: "Maine Coon" } },
    ]);
    givenAnimal(registered).when(animals.changeAnimal(target), []);
  });
  it("every weighing of an animal is recorded, even with the same weight", () => {
    const weighed: AnimalEvent = { type: "AnimalWeighed", data: { animalId: someId, weightKg: 4.3 } };
    const weigh = animals.weighAnimal({ ...target, weightKg: 4.3 });
    givenAnimal(registered).when(weigh, [weighed]);
    givenAnimal(registered, weighed).when(weigh, [weighed]);
  });
  it("an animal of another clinic is reported as missing", () => {
    const foreignTarget = { ...target, clinicId: otherClinicId };
    givenAnimal(registered).when(animals.weighAnimal({ ...foreignTarget, weightKg: 1 }), "animal_not_found");
    givenAnimal(registered).when(animals.changeAnimal(foreignTarget), "animal_not_found");
  });
});

describe("a portal user's selection", () => {
  const selection = { userId: someId, clinicId, branchId: mainBranchId };
  const selected: PortalUserEvent = { type: "ClinicSelected", data: selection };

  it("a portal user's selection is recorded only if the selection changes", () => {
    givenUser().whenOnce(portalUsers.selectClinic(selection, clinic), selected);
    const clinicSelection = { ...selection, branchId: null };
    givenUser(selected).when(portalUsers.selectClinic(clinicSelection, clinic), [
      { type: "ClinicSelected", data: clinicSelection },
    ]);
  });
  it("a portal user without a selection can be erased, and can then select no clinic", () => {
    const erased: PortalUserEvent = { type: "PortalUserDataErased", data: { userId: someId, ...erasure } };
    const erase = portalUsers.erasePortalUser({ userId: someId, ...erasure });
    givenUser().whenOnce(erase, erased);
    givenUser(selected, erased).when(portalUsers.selectClinic(selection, clinic), "portal_user_erased");
    expect(givenUser(selected, erased).state).to.include({ clinicId: null, branchId: null });
  });
  it("a portal user can select only a branch of the selected clinic", () => {
    givenUser().when(portalUsers.selectClinic({ ...selection, branchId: otherId }, clinic), "branch_not_found");
  });
});
