import { expect } from "chai";
import {
  animalAggregate,
  decideChangeAnimal,
  decideRegisterAnimal,
  decideWeighAnimal,
} from "../../../../shared/domain/clinic/animal.ts";
import {
  type CustomerDetails,
  customerAggregate,
  decideChangeCustomer,
  decideEraseCustomer,
  decideRegisterCustomer,
} from "../../../../shared/domain/clinic/customer.ts";
import {
  decideErasePortalUser,
  decideSelectClinic,
  portalUserAggregate,
} from "../../../../shared/domain/clinic/portal-user.ts";
import {
  decideDeactivateStaff,
  decideEraseStaff,
  decideHireStaff,
  decideReactivateStaff,
  staffAggregate,
} from "../../../../shared/domain/clinic/staff.ts";
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
    given(staffAggregate).when(decideHireStaff(hireInput)).thenEvents(hired);
    given(staffAggregate, hired, deactivated).when(decideHireStaff(hireInput)).thenEvents();
    given(staffAggregate, hired)
      .when(decideHireStaff({ ...hireInput, role: "owner" }))
      .thenRefused("staff_member_exists");
  });
  it("deactivating an inactive staff member or reactivating an active staff member changes nothing", () => {
    given(staffAggregate, hired).when(decideDeactivateStaff(target)).thenEvents(deactivated);
    given(staffAggregate, hired, deactivated).when(decideDeactivateStaff(target)).thenEvents();
    given(staffAggregate, hired, deactivated).when(decideReactivateStaff(target)).thenEvents(reactivated);
    given(staffAggregate, hired).when(decideReactivateStaff(target)).thenEvents();
  });
  it("a staff member of another clinic is reported as missing", () => {
    const foreignTarget = { ...target, clinicId: otherClinicId };
    given(staffAggregate, hired).when(decideDeactivateStaff(foreignTarget)).thenRefused("staff_member_not_found");
    given(staffAggregate).when(decideReactivateStaff(target)).thenRefused("staff_member_not_found");
    given(staffAggregate, hired)
      .when(decideEraseStaff({ ...foreignTarget, ...erasure }))
      .thenRefused("staff_member_not_found");
  });
  it("a staff member can be deactivated but not reactivated after an erasure of the contact data", () => {
    const erased: StaffEvent = { type: "StaffDataErased", data: { staffId: someId, ...erasure } };
    const erase = decideEraseStaff({ ...target, ...erasure });
    given(staffAggregate, hired).when(erase).thenEvents(erased);
    given(staffAggregate, hired, erased).when(erase).thenEvents();
    given(staffAggregate, hired, erased).when(decideDeactivateStaff(target)).thenEvents(deactivated);
    given(staffAggregate, hired, erased, deactivated)
      .when(decideReactivateStaff(target))
      .thenRefused("staff_member_erased");
    given(staffAggregate, hired, erased).when(decideHireStaff(hireInput)).thenRefused("staff_member_erased");
  });
});

describe("a customer", () => {
  const details: CustomerDetails = { fullName: "Ada", phone: "1", email: null, city: null };
  const registration = { customerId: someId, clinicId, ...details };
  const registered: CustomerEvent = { type: "CustomerRegistered", data: registration };
  const changeDetails = (details: Partial<CustomerDetails>, requestedClinicId = clinicId) =>
    decideChangeCustomer({ clinicId: requestedClinicId, customerId: someId, details });

  it("repeating a customer's registration changes nothing, even after a change of details", () => {
    const detailsChanged: CustomerEvent = {
      type: "CustomerDetailsChanged",
      data: { customerId: someId, ...details, phone: "2" },
    };
    given(customerAggregate).when(decideRegisterCustomer(registration)).thenEvents(registered);
    given(customerAggregate, registered, detailsChanged).when(decideRegisterCustomer(registration)).thenEvents();
  });
  it("a customer of another clinic is reported as missing", () => {
    const otherInput = { ...registration, clinicId: otherClinicId };
    given(customerAggregate, registered).when(decideRegisterCustomer(otherInput)).thenRefused("customer_exists");
    given(customerAggregate, registered)
      .when(changeDetails({ phone: "2" }, otherClinicId))
      .thenRefused("customer_not_found");
  });
  it("changing a customer's details leaves omitted details unchanged", () => {
    given(customerAggregate, registered)
      .when(changeDetails({ phone: null }))
      .thenEvents({ type: "CustomerDetailsChanged", data: { customerId: someId, ...details, phone: null } });
    given(customerAggregate, registered)
      .when(changeDetails({ phone: "1" }))
      .thenEvents();
  });
  const erase = (categories: Erasure["categories"], requestedClinicId = clinicId) =>
    decideEraseCustomer({ clinicId: requestedClinicId, customerId: someId, ...erasure, categories });
  const createErasedEvent = (categories: Erasure["categories"]): CustomerEvent => ({
    type: "CustomerDataErased",
    data: { customerId: someId, ...erasure, categories },
  });

  it("a customer of another clinic cannot be erased", () => {
    given(customerAggregate, registered)
      .when(erase(["contact"], otherClinicId))
      .thenRefused("customer_not_found");
    given(customerAggregate)
      .when(erase(["contact"]))
      .thenRefused("customer_not_found");
  });
  it("a customer cannot be changed after an erasure of the contact data, and repeating the erasure changes nothing", () => {
    const erased = createErasedEvent(["contact", "notes"]);
    given(customerAggregate, registered)
      .when(erase(["contact", "notes"]))
      .thenEvents(erased);
    given(customerAggregate, registered, erased)
      .when(changeDetails({ phone: "2" }))
      .thenRefused("customer_erased");
    given(customerAggregate, registered, erased)
      .when(decideRegisterCustomer(registration))
      .thenRefused("customer_erased");
    given(customerAggregate, registered, erased)
      .when(erase(["notes"]))
      .thenEvents();
    given(customerAggregate, registered, erased)
      .when(erase(["animal", "contact"]))
      .thenEvents(createErasedEvent(["animal", "contact"]));
  });
  it("notes that were recorded after an erasure of notes can be erased after an erasure of the contact data", () => {
    const [erasedNotes, erasedContact] = [createErasedEvent(["notes"]), createErasedEvent(["contact"])];
    given(customerAggregate, registered, erasedNotes, erasedContact)
      .when(erase(["notes"]))
      .thenEvents(erasedNotes);
    given(customerAggregate, registered, erasedNotes, erasedContact, erasedNotes)
      .when(erase(["notes", "contact"]))
      .thenEvents();
    given(customerAggregate, registered, erasedContact, createErasedEvent(["animal", "contact"]))
      .when(erase(["animal"]))
      .thenEvents();
  });
  it("notes can be erased several times, because a customer with contact data can get new notes", () => {
    const erased = createErasedEvent(["notes"]);
    given(customerAggregate, registered, erased)
      .when(erase(["notes"]))
      .thenEvents(erased);
    const detailsChanged: CustomerEvent = {
      type: "CustomerDetailsChanged",
      data: { customerId: someId, ...details, phone: "2" },
    };
    given(customerAggregate, registered, erased)
      .when(changeDetails({ phone: "2" }))
      .thenEvents(detailsChanged);
  });
});

describe("an animal", () => {
  const details = {
    name: "Luna",
    species: "cat",
    breed: null,
    sex: null,
    birthDate: "2020-02-29",
    microchip: null,
  };
  const registration = { animalId: someId, clinicId, customerId: otherId, ...details, weightKg: 4.2 };
  const registered: AnimalEvent = { type: "AnimalRegistered", data: registration };
  const target = { clinicId, animalId: someId };

  it("repeating an animal's registration changes nothing", () => {
    given(animalAggregate).when(decideRegisterAnimal(registration)).thenEvents(registered);
    given(animalAggregate, registered).when(decideRegisterAnimal(registration)).thenEvents();
    given(animalAggregate, registered)
      .when(decideRegisterAnimal({ ...registration, customerId: someId }))
      .thenRefused("animal_exists");
  });
  it("changing an animal's details leaves omitted details unchanged", () => {
    given(animalAggregate, registered)
      .when(decideChangeAnimal({ ...target, details: { breed: "Maine Coon" } }))
      .thenEvents({
        type: "AnimalDetailsChanged",
        data: { animalId: someId, ...details, breed: "Maine Coon" },
      });
    given(animalAggregate, registered)
      .when(decideChangeAnimal({ ...target, details: {} }))
      .thenEvents();
  });
  it("every weighing of an animal is recorded, even with the same weight", () => {
    const weighed: AnimalEvent = { type: "AnimalWeighed", data: { animalId: someId, weightKg: 4.3 } };
    const weigh = decideWeighAnimal({ ...target, weightKg: 4.3 });
    given(animalAggregate, registered).when(weigh).thenEvents(weighed);
    given(animalAggregate, registered, weighed).when(weigh).thenEvents(weighed);
  });
  it("an animal of another clinic is reported as missing", () => {
    const foreignTarget = { ...target, clinicId: otherClinicId };
    given(animalAggregate, registered)
      .when(decideWeighAnimal({ ...foreignTarget, weightKg: 1 }))
      .thenRefused("animal_not_found");
    given(animalAggregate, registered)
      .when(decideChangeAnimal({ ...foreignTarget, details: {} }))
      .thenRefused("animal_not_found");
  });
});

describe("a portal user's selection", () => {
  const selection = { userId: someId, clinicId, branchId: mainBranchId };
  const selected: PortalUserEvent = { type: "ClinicSelected", data: selection };

  it("a portal user's selection is recorded only if the selection changes", () => {
    given(portalUserAggregate).when(decideSelectClinic(selection, clinic)).thenEvents(selected);
    given(portalUserAggregate, selected).when(decideSelectClinic(selection, clinic)).thenEvents();
    const clinicSelection = { ...selection, branchId: null };
    given(portalUserAggregate, selected)
      .when(decideSelectClinic(clinicSelection, clinic))
      .thenEvents({ type: "ClinicSelected", data: clinicSelection });
  });
  it("a portal user without a selection can be erased, and can then select no clinic", () => {
    const erased: PortalUserEvent = { type: "PortalUserDataErased", data: { userId: someId, ...erasure } };
    const erase = decideErasePortalUser({ userId: someId, ...erasure });
    given(portalUserAggregate).when(erase).thenEvents(erased);
    given(portalUserAggregate, erased).when(erase).thenEvents();
    given(portalUserAggregate, selected, erased)
      .when(decideSelectClinic(selection, clinic))
      .thenRefused("portal_user_erased");
    expect(given(portalUserAggregate, selected, erased).state).to.include({ clinicId: null, branchId: null });
  });
  it("a portal user can select only a branch of the selected clinic", () => {
    given(portalUserAggregate)
      .when(decideSelectClinic({ ...selection, branchId: otherId }, clinic))
      .thenRefused("branch_not_found");
  });
});
