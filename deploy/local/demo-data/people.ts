import { registerAnimal, registerCustomer } from "../../../command/operations/customer-operations.ts";
import {
  acceptMembership,
  deactivateStaff,
  grantMembership,
  hireStaff,
  selectClinic,
} from "../../../command/operations/people-operations.ts";
import type { AnimalRegistration } from "../../../shared/domain/clinic/animal.ts";
import type { MembershipRights } from "../../../shared/domain/clinic/membership.ts";
import { addDays, DAY_MS, toLocalDate } from "../../../shared/domain/time/local-time.ts";
import type { DemoClinic } from "./clinics.ts";
import { createPicker, createStep, deriveDemoId, type StepSequence } from "./steps.ts";

type Role = MembershipRights["role"];

const PERMISSIONS: Record<Role, MembershipRights["permissions"]> = {
  owner: ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"],
  manager: ["manage_staff", "view_clinical", "manage_schedule"],
  veterinarian: ["view_clinical", "manage_schedule"],
  receptionist: ["manage_schedule"],
  assistant: ["view_clinical"],
};

export interface DemoUser {
  id: string;
  name: string;
  email: string;
  role: Role;
  clinic: DemoClinic;
}

export function createDemoUsers(clinic: DemoClinic): DemoUser[] {
  return (Object.keys(PERMISSIONS) as Role[]).map((role, index) => ({
    id: deriveDemoId(clinic.slug, "user", role),
    name: `${clinic.firstNames[index]} ${clinic.lastNames[index]}`,
    email: `${role}@${clinic.slug}.example`,
    role,
    clinic,
  }));
}

/** Hires a staff member with portal access. Receptionists get access only to the clinic's last branch. */
export function addPortalUser({ id: userId, name, email, role, clinic }: DemoUser, now: number): StepSequence {
  const clinicId = clinic.id;
  const staffId = deriveDemoId(clinic.slug, "staff", role);
  const membershipId = deriveDemoId(clinic.slug, "membership", role);
  const isScoped = role === "receptionist";
  const grantInput = {
    membershipId,
    clinicId,
    userId,
    staffId,
    role,
    permissions: PERMISSIONS[role],
    acceptedAt: null,
    branchAccess: isScoped ? ("scoped" as const) : ("all" as const),
    branchIds: isScoped ? clinic.branches.slice(-1).map(({ id }) => id) : [],
  };
  const hireInput = { staffId, clinicId, userId, fullName: name, email, role };
  const prefix = `${clinic.slug} ${role}`;
  return [
    createStep(`${prefix} hired`, now - 380 * DAY_MS, hireStaff, hireInput),
    createStep(`${prefix} granted`, now - 379 * DAY_MS, grantMembership, grantInput),
    createStep(`${prefix} accepted`, now - 378 * DAY_MS, acceptMembership, { clinicId, membershipId }),
  ];
}

/** Adds two staff members without portal access. The second has left the clinic. */
export function addOtherStaff(clinic: DemoClinic, now: number): StepSequence[] {
  const { id: clinicId, slug } = clinic;
  return [5, 6].map((index) => {
    const staffId = deriveDemoId(slug, "staff", index);
    const fullName = `${clinic.firstNames[index]} ${clinic.lastNames[index]}`;
    const hireInput = { staffId, clinicId, userId: null, fullName, email: null, role: "assistant" as const };
    const name = `${slug} staff ${index}`;
    const hireStep = createStep(name, now - 200 * DAY_MS, hireStaff, hireInput);
    if (index === 5) return [hireStep];
    return [hireStep, createStep(`${name} left`, now - 20 * DAY_MS, deactivateStaff, { clinicId, staffId })];
  });
}

/** Selects the user's clinic, but no branch. */
export function selectUserClinic({ id: userId, role, clinic }: DemoUser, now: number): StepSequence {
  const selectionInput = { userId, clinicId: clinic.id, branchId: null };
  return [createStep(`${clinic.slug} ${role} selects`, now, selectClinic, selectionInput)];
}

/** Minimum and maximum weight in kilograms. */
const SPECIES = {
  dog: { breeds: ["Labrador Retriever", "Dachshund", "Border Collie", "Poodle", null], weight: [5, 40] },
  cat: { breeds: ["European Shorthair", "Maine Coon", "British Shorthair", null], weight: [3, 8] },
  rabbit: { breeds: ["Netherland Dwarf", "Lop", null], weight: [1, 4] },
  bird: { breeds: ["Budgerigar", "Cockatiel"], weight: [0.03, 0.12] },
} as const;

/** A species that is listed several times is chosen more often. */
const WEIGHTED_SPECIES = ["dog", "dog", "dog", "dog", "cat", "cat", "cat", "cat", "rabbit", "bird"] as const;

const ANIMAL_NAMES =
  "Luna Milo Bella Rocky Nala Simba Coco Max Lola Oscar Daisy Charlie Kira Bruno Maya Leo Pepper".split(" ");

interface DemoAnimal {
  id: string;
  customerId: string;
}

/** Returns two animals for every second customer, and one for each other customer. */
export function listAnimals({ slug, customerCount }: Pick<DemoClinic, "slug" | "customerCount">): DemoAnimal[] {
  return Array.from({ length: customerCount }, (_, customerIndex) =>
    Array.from({ length: 1 + (customerIndex % 2) }, (_, animalIndex) => ({
      id: deriveDemoId(slug, "animal", customerIndex, animalIndex),
      customerId: deriveDemoId(slug, "customer", customerIndex),
    })),
  ).flat();
}

/** Registers customers and animals at times within the last year. */
export function registerCustomers(clinic: DemoClinic, now: number): StepSequence[] {
  const animals = listAnimals(clinic);
  return Array.from({ length: clinic.customerCount }, (_, index) => {
    const registeredAt = now - (365 - (index % 360)) * DAY_MS;
    const customer = describeCustomer(clinic, index);
    const ownAnimals = animals.filter(({ customerId }) => customerId === customer.customerId);
    return [
      createStep(`${clinic.slug} customer ${index}`, registeredAt, registerCustomer, customer),
      ...ownAnimals.map((animal, animalIndex) => {
        const name = `${clinic.slug} animal ${index} ${animalIndex}`;
        return createStep(name, registeredAt + 60_000, registerAnimal, describeAnimal(clinic, animal, now));
      }),
    ];
  });
}

function describeCustomer(clinic: DemoClinic, index: number) {
  const customerId = deriveDemoId(clinic.slug, "customer", index);
  const picker = createPicker(customerId);
  const [firstName, lastName] = [picker.pick(clinic.firstNames), picker.pick(clinic.lastNames)];
  return {
    customerId,
    clinicId: clinic.id,
    fullName: `${firstName} ${lastName}`,
    phone: picker.pickBoolean(0.9) ? `${clinic.phonePrefix} ${String(index).padStart(4, "0")}` : null,
    email: picker.pickBoolean(0.8) ? `customer-${index}@${clinic.slug}.example` : null,
    city: picker.pickBoolean(0.85) ? picker.pick(clinic.branches).city : null,
  };
}

function describeAnimal(clinic: DemoClinic, { id: animalId, customerId }: DemoAnimal, now: number): AnimalRegistration {
  const picker = createPicker(animalId);
  const species = picker.pick(WEIGHTED_SPECIES);
  const { breeds, weight: weightRange } = SPECIES[species];
  const [minKg, maxKg] = weightRange;
  const weightKg = Math.round((minKg + ((maxKg - minKg) * picker.pickIntegerBelow(100)) / 100) * 1000) / 1000;
  return {
    animalId,
    clinicId: clinic.id,
    customerId,
    name: picker.pick(ANIMAL_NAMES),
    species,
    breed: picker.pick<string | null>(breeds),
    sex: picker.pick(["female", "male", "female_neutered", "male_neutered", null]),
    birthDate: picker.pickBoolean(0.8)
      ? addDays(toLocalDate(clinic.timezone, now), -400 - picker.pickIntegerBelow(4000))
      : null,
    weightKg: picker.pickBoolean(0.9) ? weightKg : null,
    microchip: picker.pickBoolean(0.6)
      ? `9000000${String(picker.pickIntegerBelow(100_000_000)).padStart(8, "0")}`
      : null,
  };
}
