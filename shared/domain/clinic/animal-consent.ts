import { type Aggregate, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import type { DataOf } from "../events/category.ts";
import {
  type AnimalConsentEvent,
  animalConsentStreams,
  animalLinkCodeStreams,
  type WithdrawalParty,
} from "../events/consent.ts";
import { requireOwnedBy } from "../preconditions.ts";

type ConsentSummary = DataOf<AnimalConsentEvent, "AnimalConsentSummarized">["consents"][number];

/** Latest link code and link of an application. `lastLinkId` is kept after the link has ended. */
type ApplicationConsent = Omit<ConsentSummary, "applicationId">;

/** A code that was not redeemed yet, with the id of the link that it creates. `expiresAt` is null if it does not expire. */
export type LinkCode = NonNullable<ConsentSummary["code"]>;

/** An owner's consent to share an animal's data with an application. */
export type AnimalLink = NonNullable<ConsentSummary["link"]>;

/** Link codes and links with which an owner shares an animal. */
export interface AnimalConsent {
  id: string;
  clinicId: string;
  /** Latest code and link of each application, by the application's id. */
  applications: Readonly<Record<string, ApplicationConsent>>;
}

const NO_CONSENT: ApplicationConsent = { code: null, link: null, lastLinkId: null };

export const animalConsentAggregate: Aggregate<typeof animalConsentStreams, AnimalConsent> = defineAggregate(
  animalConsentStreams,
  {
    AnimalLinkCodeCreated: ({ linkId, covers, expiresAt, ...subject }, state) =>
      changeConsent(state, subject, { code: { linkId, covers, expiresAt } }),
    AnimalLinked: ({ linkId, covers, ...subject }, state, linkedAt) =>
      changeConsent(state, subject, { code: null, link: { linkId, covers, linkedAt }, lastLinkId: linkId }),
    AnimalLinkWithdrawn: (subject, state) => changeConsent(state, subject, { code: null, link: null }),
    AnimalConsentSummarized({ animalId: id, clinicId, consents }) {
      const entries = consents.map(({ applicationId, ...consent }) => [applicationId, consent] as const);
      return { id, clinicId, applications: Object.fromEntries(entries) };
    },
  },
  {},
  {
    summarize: ({ id: animalId, clinicId, applications }) => {
      const consents = Object.entries(applications).map(([applicationId, consent]) => ({ applicationId, ...consent }));
      return { type: "AnimalConsentSummarized", data: { animalId, clinicId, consents } };
    },
  },
);

function changeConsent(
  state: AnimalConsent | undefined,
  { animalId: id, clinicId, applicationId }: { animalId: string; clinicId: string; applicationId: string },
  changes: Partial<ApplicationConsent>,
): AnimalConsent {
  const consent = { ...NO_CONSENT, ...state?.applications[applicationId], ...changes };
  return { id, clinicId, applications: { ...state?.applications, [applicationId]: consent } };
}

/** Pointer from a link code to its animal. */
export const animalLinkCodeAggregate: Aggregate<typeof animalLinkCodeStreams, { animalId: string }> = defineAggregate(
  animalLinkCodeStreams,
  { AnimalLinkCodeAssigned: ({ animalId }) => ({ animalId }) },
  {},
);

type AnimalConsentDecision = Decision<AnimalConsent, AnimalConsentEvent>;

/** Creates a link code. The caller checks that the animal belongs to the clinic, and that its owner is not erased. */
export function createLinkCode(data: DataOf<AnimalConsentEvent, "AnimalLinkCodeCreated">): AnimalConsentDecision {
  return () => [{ type: "AnimalLinkCodeCreated", data }];
}

interface Redemption extends Omit<DataOf<AnimalConsentEvent, "AnimalLinked">, "covers"> {
  isOwnerErased: boolean;
  /** The sandbox's published link code, which has no `AnimalLinkCodeCreated` event; null in production. */
  sandboxCode: LinkCode | null;
}

/**
 * Redeems a link code, and ends an earlier link of the application to the animal. Repeating the redemption while the
 * link is valid changes nothing. All refusals have the same error, so that they reveal nothing about the code.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `link_code_invalid`
 */
export function redeemLinkCode(redemption: Redemption, now: number): AnimalConsentDecision {
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
      ? withdrawLink({ ...link, linkId: consent.link.linkId, requestedBy: "application" })(state)
      : [];
    return [...withdrawal, { type: "AnimalLinked", data: { ...link, covers: code.covers } }];
  };
}

/** @throws {DomainError} `link_code_invalid` */
export function refuseLinkCode(): never {
  throw new DomainError("link_code_invalid", "the link code is not valid for this application at this clinic");
}

/**
 * Withdraws the consent to share an animal with an application. Ends the link, and invalidates a code that was not
 * redeemed. Repeating the withdrawal without a link id changes nothing.
 *
 * @param withdrawal.linkId link to end; null for the application's current link and code
 * @throws {DomainError} `animal_link_not_found`, also if the given link has already ended
 */
export function withdrawLink(withdrawal: {
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
