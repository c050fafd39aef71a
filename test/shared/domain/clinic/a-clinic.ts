import { type Clinic, type ClinicRegistration, clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import type { ClinicEvent } from "../../../../shared/domain/events/clinic.ts";
import { fold } from "../../../support/given.ts";
import { clinicId, mainBranchId, otherBranchId } from "./ids.ts";

export const registration: ClinicRegistration = {
  clinicId,
  environment: "production",
  slug: "lake-vets",
  name: "Lake Vets",
  timezone: "Europe/Zurich",
  currency: "CHF",
  locale: "de-CH",
  city: "Zug",
  isDemo: false,
  demoExpiresAt: null,
};

export const registered: ClinicEvent = { type: "ClinicRegistered", data: registration };

export const branchesOpened: ClinicEvent[] = [
  { type: "BranchOpened", data: { clinicId, branchId: mainBranchId, name: "Old Town", city: null, isMain: true } },
  { type: "BranchOpened", data: { clinicId, branchId: otherBranchId, name: "Lakeside", city: "Zug", isMain: false } },
];

/** State of a registered clinic with two branches. */
export const clinic = fold(clinicAggregate, [registered, ...branchesOpened]) as Clinic;
