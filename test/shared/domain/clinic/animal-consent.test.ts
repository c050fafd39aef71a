import { expect } from "chai";
import { createLinkCodeCommand } from "../../../../command/operations/animal-link-operations.ts";
import * as consents from "../../../../shared/domain/clinic/animal-consent.ts";
import { animalConsentAggregate, findAnimalLink } from "../../../../shared/domain/clinic/animal-consent.ts";
import type { AnimalConsentEvent } from "../../../../shared/domain/events/consent.ts";
import { toInstant } from "../../../../shared/domain/time/rfc3339.ts";
import { DEFAULT_EVENT_TIME, given } from "../../../support/given.ts";
import { someId as animalId, clinicId, otherClinicId, otherId } from "./ids.ts";

const applicationId = "a0000000-0000-4000-8000-000000000001";
const otherApplicationId = "a0000000-0000-4000-8000-000000000002";
const linkId = "10000000-0000-4000-8000-000000000001";
const otherLinkId = "10000000-0000-4000-8000-000000000002";
const now = Date.parse(DEFAULT_EVENT_TIME);
const MINUTE_MS = 60_000;

const codeData = { animalId, clinicId, applicationId, linkId, covers: "appointments_read" as const };
const codeCreated = (overrides: object = {}): AnimalConsentEvent => ({
  type: "AnimalLinkCodeCreated",
  data: { ...codeData, expiresAt: toInstant(now + 15 * MINUTE_MS), ...overrides },
});
const linked = (overrides: object = {}): AnimalConsentEvent => ({
  type: "AnimalLinked",
  data: { ...codeData, customerId: otherId, sandboxGeneration: 0, ...overrides },
});
const withdrawn: AnimalConsentEvent = {
  type: "AnimalLinkWithdrawn",
  data: { animalId, clinicId, applicationId, linkId, requestedBy: "owner" },
};
const redeem = (overrides: object = {}, at = now) => {
  const { covers: _, ...redemption } = { ...codeData, customerId: otherId, sandboxGeneration: 0 };
  return consents.redeemLinkCode({ ...redemption, isOwnerErased: false, sandboxCode: null, ...overrides }, at);
};
const withdraw = (overrides: object = {}) =>
  consents.withdrawLink({ clinicId, applicationId, linkId: null, requestedBy: "owner", ...overrides });
const givenConsent = (...history: AnimalConsentEvent[]) => given(animalConsentAggregate, ...history);

describe("consent of an animal's owner", () => {
  it("a link code is valid for 15 minutes to 7 days", () => {
    givenConsent().when(consents.createLinkCode({ ...codeData, expiresAt: toInstant(now + 15 * MINUTE_MS) }), [
      codeCreated(),
    ]);
    const { validMinutes } = createLinkCodeCommand.input.shape;
    const minutes = [14, 15, 7 * 24 * 60, 7 * 24 * 60 + 1];
    expect(minutes.map((value) => validMinutes?.safeParse(value).success)).to.deep.equal([false, true, true, false]);
  });

  it("a link code can be redeemed once, until it expires, by its application at its clinic", () => {
    givenConsent(codeCreated()).when(redeem(), [linked()]);
    const refusals = [
      redeem({}, now + 15 * MINUTE_MS),
      redeem({ applicationId: otherApplicationId }),
      redeem({ clinicId: otherClinicId }),
      redeem({ linkId: otherLinkId }),
      redeem({ isOwnerErased: true }),
    ];
    for (const refused of refusals) givenConsent(codeCreated()).when(refused, "link_code_invalid");
    givenConsent().when(redeem(), "link_code_invalid");
    givenConsent(codeCreated(), linked(), withdrawn).when(redeem(), "link_code_invalid");
  });

  it("the same application gets the same link again, also after the code has expired", () => {
    const consent = givenConsent(codeCreated(), linked());
    consent.when(redeem({}, now + 15 * MINUTE_MS), []);
    consent.when(redeem({ applicationId: otherApplicationId }), "link_code_invalid");
    consent.when(redeem({ isOwnerErased: true }), "link_code_invalid");
  });

  it("a new code replaces the code that was not redeemed, and its link replaces the former link", () => {
    const newCode = codeCreated({ linkId: otherLinkId, covers: "appointments_write" });
    givenConsent(codeCreated(), newCode).when(redeem(), "link_code_invalid");
    const replaced = { ...withdrawn, data: { ...withdrawn.data, requestedBy: "application" as const } };
    givenConsent(codeCreated(), linked(), newCode).when(redeem({ linkId: otherLinkId }), [
      replaced,
      linked({ linkId: otherLinkId, covers: "appointments_write" }),
    ]);
    const { state, when } = givenConsent(
      codeCreated(),
      linked(),
      newCode,
      linked({ linkId: otherLinkId, covers: "appointments_write" }),
    );
    const linkedAt = DEFAULT_EVENT_TIME;
    expect(findAnimalLink(state, { clinicId, applicationId })).to.eql({
      linkId: otherLinkId,
      covers: "appointments_write",
      linkedAt,
    });
    when(redeem(), "link_code_invalid");
  });

  it("the published code of a sandbox can be redeemed once, without a created code", () => {
    const sandboxCode = { linkId, covers: "appointments_read" as const, expiresAt: null };
    givenConsent().when(redeem({ sandboxCode }), [linked()]);
    givenConsent(linked()).when(redeem({ sandboxCode }), []);
    givenConsent(linked(), withdrawn).when(redeem({ sandboxCode }), "link_code_invalid");
  });

  it("a withdrawal ends the link and invalidates the code of one application", () => {
    givenConsent(codeCreated(), linked()).when(withdraw(), [withdrawn]);
    givenConsent(codeCreated()).when(withdraw(), [
      { ...withdrawn, data: { ...withdrawn.data, linkId: null } as never },
    ]);
    givenConsent(codeCreated(), withdrawn).when(redeem(), "link_code_invalid");
    givenConsent(codeCreated(), linked(), withdrawn).when(withdraw(), []);
    const { state } = givenConsent(codeCreated(), linked(), linked({ applicationId: otherApplicationId }), withdrawn);
    expect(findAnimalLink(state, { clinicId, applicationId })).to.equal(undefined);
    expect(findAnimalLink(state, { clinicId, applicationId: otherApplicationId })?.linkId).to.equal(linkId);
  });

  it("a withdrawal of an unknown link is refused", () => {
    givenConsent().when(withdraw(), "animal_link_not_found");
    const consent = givenConsent(codeCreated(), linked());
    consent.when(withdraw({ clinicId: otherClinicId }), "animal_link_not_found");
    consent.when(withdraw({ applicationId: otherApplicationId }), "animal_link_not_found");
    consent.when(withdraw({ linkId: otherLinkId }), "animal_link_not_found");
  });

  it("a link is valid only at its own clinic", () => {
    const { state } = givenConsent(codeCreated(), linked());
    expect(findAnimalLink(state, { clinicId: otherClinicId, applicationId })).to.equal(undefined);
  });

  it("a summary contains the whole state", () => {
    const otherCode = codeCreated({ applicationId: otherApplicationId, linkId: otherLinkId });
    const { state } = givenConsent(codeCreated(), linked(), otherCode);
    const summary = animalConsentAggregate.summarize!(state!);
    expect(givenConsent(summary).state).to.eql(state);
  });
});
