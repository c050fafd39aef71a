import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import type { DataOf } from "../events/category.ts";
import {
  type AnimalConsentEvent,
  animalConsentStreams,
  animalLinkCodeStreams,
  type ConsentCoverage,
  type WithdrawalParty,
} from "../events/consent.ts";
import { requireOwnedBy } from "../preconditions.ts";
import type { Instant } from "../time/rfc3339.ts";

/** Shortest and longest validity of a link code, in milliseconds. */
export const LINK_CODE_VALIDITY_MS = { min: 15 * 60_000, max: 7 * 24 * 60 * 60_000 };

/** A code that was not redeemed yet. */
export interface LinkCode {
  /** Id of the link that the code creates. */
  linkId: string;
  covers: ConsentCoverage;
  /** Null if the code does not expire. */
  expiresAt: Instant | null;
}

/** An owner's consent to share an animal's data with an application. */
export interface AnimalLink {
  linkId: string;
  covers: ConsentCoverage;
  linkedAt: Instant;
}

interface ApplicationConsent {
  code: LinkCode | null;
  link: AnimalLink | null;
  /** Id of the last link, also after its end. */
  lastLinkId: string | null;
}

/** State of the consents of an animal's owner. */
export interface AnimalConsent {
  id: string;
  clinicId: string;
  /** Latest code and link of each application, by the application's id. */
  applications: Readonly<Record<string, ApplicationConsent>>;
}

const NO_CONSENT: ApplicationConsent = { code: null, link: null, lastLinkId: null };

export const animalConsentAggregate: Aggregate<typeof animalConsentStreams, AnimalConsent> = {
  category: animalConsentStreams,
  evolve(state, event) {
    const { animalId: id, clinicId } = event.data;
    if (event.type === "AnimalConsentSummarized") {
      const { consents } = event.data;
      const entries = consents.map(({ applicationId, ...consent }) => [applicationId, consent] as const);
      return { id, clinicId, applications: Object.fromEntries(entries) };
    }
    const { applicationId, linkId } = event.data;
    const consent = state?.applications[applicationId] ?? NO_CONSENT;
    const change = (changes: Partial<ApplicationConsent>): AnimalConsent => ({
      id,
      clinicId,
      applications: { ...state?.applications, [applicationId]: { ...consent, ...changes } },
    });
    switch (event.type) {
      case "AnimalLinkCodeCreated": {
        const { covers, expiresAt } = event.data;
        return change({ code: { linkId: event.data.linkId, covers, expiresAt } });
      }
      case "AnimalLinked": {
        const link = { linkId: event.data.linkId, covers: event.data.covers, linkedAt: event.metadata.occurredAt };
        return change({ code: null, link, lastLinkId: linkId });
      }
      case "AnimalLinkWithdrawn":
        return change({ code: null, link: null });
    }
  },
  summarize: ({ id: animalId, clinicId, applications }) => {
    const consents = Object.entries(applications).map(([applicationId, consent]) => ({ applicationId, ...consent }));
    return { type: "AnimalConsentSummarized", data: { animalId, clinicId, consents } };
  },
};

/** Pointer from a link code to its animal. */
export const animalLinkCodeAggregate: Aggregate<typeof animalLinkCodeStreams, { animalId: string }> = {
  category: animalLinkCodeStreams,
  evolve: (_, { data: { animalId } }) => ({ animalId }),
};

type AnimalConsentDecision = Decision<AnimalConsent, AnimalConsentEvent>;

/**
 * Creates a link code. The caller checks that the animal belongs to the clinic, and that its owner is not erased.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `link_code_validity`
 */
export function decideCreateLinkCode(
  data: DataOf<AnimalConsentEvent, "AnimalLinkCodeCreated">,
  now: number,
): AnimalConsentDecision {
  return () => {
    const validityMs = Date.parse(data.expiresAt) - now;
    if (validityMs < LINK_CODE_VALIDITY_MS.min || validityMs > LINK_CODE_VALIDITY_MS.max)
      throw new DomainError("link_code_validity", "a link code must be valid for 15 minutes to 7 days");
    return [{ type: "AnimalLinkCodeCreated", data }];
  };
}

interface Redemption extends Omit<DataOf<AnimalConsentEvent, "AnimalLinked">, "covers"> {
  isOwnerErased: boolean;
  /** Code of a sandbox, which no event creates; null in production. */
  sandboxCode: LinkCode | null;
}

/**
 * Redeems a link code. An earlier link of the application ends. Repeating the redemption returns no event while the link
 * is valid. All refusals are equal, so that they reveal nothing about the code.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `link_code_invalid`
 */
export function decideRedeemLinkCode(redemption: Redemption, now: number): AnimalConsentDecision {
  return (state) => {
    const { isOwnerErased, sandboxCode, ...link } = redemption;
    const { applicationId, linkId } = link;
    const isOfOtherClinic = state !== undefined && state.clinicId !== link.clinicId;
    if (isOwnerErased || isOfOtherClinic) refuseLinkCode();
    const consent = state?.applications[applicationId] ?? NO_CONSENT;
    if (consent.link?.linkId === linkId) return [];
    const code = sandboxCode ?? consent.code;
    const isUsed = consent.lastLinkId === linkId;
    if (code?.linkId !== linkId || isUsed || (code.expiresAt !== null && Date.parse(code.expiresAt) <= now))
      refuseLinkCode();
    const withdrawal = consent.link
      ? decideWithdrawLink({ ...link, linkId: consent.link.linkId, requestedBy: "application" })(state)
      : [];
    return [...withdrawal, { type: "AnimalLinked", data: { ...link, covers: code.covers } }];
  };
}

/** @throws {DomainError} `link_code_invalid` */
export function refuseLinkCode(): never {
  throw new DomainError("link_code_invalid", "the link code is not valid for this application at this clinic");
}

/**
 * Withdraws the consent to an application: ends the link, and invalidates a code that was not redeemed. Repeating the
 * withdrawal changes nothing.
 *
 * @param withdrawal.linkId link to end; null for the application's current link and code, whatever they are
 * @throws {DomainError} `animal_link_not_found`
 */
export function decideWithdrawLink(withdrawal: {
  clinicId: string;
  applicationId: string;
  linkId: string | null;
  requestedBy: WithdrawalParty;
}): AnimalConsentDecision {
  return (state) => {
    const { clinicId, applicationId, requestedBy } = withdrawal;
    const { id: animalId, applications } = requireOwnedBy(clinicId, state, "animal_link");
    const consent = applications[applicationId];
    if (!consent || (withdrawal.linkId !== null && withdrawal.linkId !== consent.link?.linkId))
      throw new DomainError("animal_link_not_found", "the application has no such link at this clinic");
    if (!consent.link && !consent.code) return [];
    const linkId = consent.link?.linkId ?? null;
    return [{ type: "AnimalLinkWithdrawn", data: { animalId, clinicId, applicationId, linkId, requestedBy } }];
  };
}

/** Returns the link of an application to an animal; undefined if there is none. */
export function findAnimalLink(
  consent: AnimalConsent | undefined,
  { clinicId, applicationId }: { clinicId: string; applicationId: string },
): AnimalLink | undefined {
  return consent?.clinicId === clinicId ? (consent.applications[applicationId]?.link ?? undefined) : undefined;
}
