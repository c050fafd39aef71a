import { z } from "zod";
import { completeEvents, defineCategory, type EventOf, summaries } from "./category.ts";
import { instant, uuid } from "./fields.ts";

/**
 * Scope of an owner's consent. `appointments_read`: the application may read the animal's appointments.
 * `appointments_write`: the application may also create appointments for the animal.
 */
export const consentCoverage = z.enum(["appointments_read", "appointments_write"]);
export type ConsentCoverage = z.infer<typeof consentCoverage>;

export const withdrawalParty = z.enum(["owner", "clinic", "application"]);
export type WithdrawalParty = z.infer<typeof withdrawalParty>;

const linkFields = {
  animalId: uuid,
  clinicId: uuid,
  applicationId: uuid,
  /** Id of the link that the code creates. Derived from the code, see `deriveAnimalLinkId`. */
  linkId: uuid,
  covers: consentCoverage.describe("what the owner's consent covers"),
};

/**
 * Events of an owner's consents to share an animal: link codes and links of all applications. Each animal has only one
 * stream, so that a code can be redeemed only once. The code itself is not stored. Stream id: id of the animal.
 */
export const animalConsentStreams = defineCategory("animalConsent", "animalId", summaries("AnimalConsentSummarized"), {
  /** Replaces an earlier code of the same application that was not redeemed. */
  AnimalLinkCodeCreated: z.object({ ...linkFields, expiresAt: instant }),
  /** A code was redeemed. If the application had an earlier link, a preceding event has withdrawn it. */
  AnimalLinked: z.object({
    ...linkFields,
    /** Owner of the animal. The link ends when the owner's data is erased. */
    customerId: uuid,
    /** Sandbox generation in which the code was redeemed; 0 outside of sandboxes. */
    sandboxGeneration: z.int().min(0),
  }),
  /** Ends a link. Also invalidates a code of the same application that was not redeemed. */
  AnimalLinkWithdrawn: z.object({
    animalId: uuid,
    clinicId: uuid,
    applicationId: uuid,
    /** Id of the ended link; null if only a code was invalidated. */
    linkId: uuid.nullable(),
    requestedBy: withdrawalParty.describe("who withdraws the consent"),
  }),
  /** Summary of the consents to all applications; see `Aggregate.summarize`. Does not change the state. */
  AnimalConsentSummarized: z.object({
    animalId: uuid,
    clinicId: uuid,
    consents: z.array(
      z.object({
        applicationId: uuid,
        code: z.object({ linkId: uuid, covers: consentCoverage, expiresAt: instant.nullable() }).nullable(),
        link: z.object({ linkId: uuid, covers: consentCoverage, linkedAt: instant }).nullable(),
        lastLinkId: uuid.nullable(),
      }),
    ),
  }),
});
export type AnimalConsentEvent = EventOf<typeof animalConsentStreams>;

/** Stores which animal a link code is for. Stream id: id of the link that the code creates. */
export const animalLinkCodeStreams = defineCategory("animalLinkCode", "linkId", completeEvents, {
  AnimalLinkCodeAssigned: z.object({ linkId: uuid, animalId: uuid }),
});
export type AnimalLinkCodeEvent = EventOf<typeof animalLinkCodeStreams>;
