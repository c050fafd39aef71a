import type { PartnerApplicationEvent } from "../../../../shared/domain/events/partner.ts";
import * as applications from "../../../../shared/domain/partner/application.ts";
import { applicationAggregate } from "../../../../shared/domain/partner/application.ts";
import { given } from "../../../support/given.ts";

const applicationId = "a0000000-0000-4000-8000-000000000001";
const origin = "https://hooks.example.com";
const details = { applicationId, environment: "sandbox", name: "Calendar" } as const;
const registered: PartnerApplicationEvent = {
  type: "ApplicationRegistered",
  data: { ...details, scopes: ["clinic:read"] },
};
const credentialIssued = (credentialId: string): PartnerApplicationEvent => ({
  type: "CredentialIssued",
  data: { applicationId, credentialId, secretHash: "0".repeat(64) },
});
const credentialRevoked = (credentialId: string): PartnerApplicationEvent => ({
  type: "CredentialRevoked",
  data: { applicationId, credentialId },
});
const approved: PartnerApplicationEvent = { type: "WebhookOriginApproved", data: { applicationId, origin } };
const withdrawn: PartnerApplicationEvent = { type: "WebhookOriginWithdrawn", data: { applicationId, origin } };
const applicationRevoked: PartnerApplicationEvent = {
  type: "ApplicationRevoked",
  data: { applicationId, reason: null },
};

const givenApplication = (...history: PartnerApplicationEvent[]) => given(applicationAggregate, ...history);
const issue = (credentialId: string) => applications.issueCredential({ credentialId, secretHash: "0".repeat(64) });

describe("partner application", () => {
  it("an application can be registered only once, and duplicate scopes are removed", () => {
    const register = applications.registerApplication({ ...details, scopes: ["clinic:read", "clinic:read"] });
    givenApplication().when(register, [registered]);
    givenApplication(registered).when(register, "application_exists");
  });

  it("an application has at most two active credentials", () => {
    givenApplication(registered).when(issue("one"), [credentialIssued("one")]);
    givenApplication(registered, credentialIssued("one")).when(issue("two"), [credentialIssued("two")]);
    const history = [registered, credentialIssued("one"), credentialIssued("two")];
    givenApplication(...history).when(issue("three"), "too_many_credentials");
    givenApplication(...history, credentialRevoked("one")).when(issue("three"), [credentialIssued("three")]);
  });

  it("revoking a revoked credential changes nothing", () => {
    const revoke = applications.revokeCredential({ applicationId, credentialId: "one" });
    givenApplication(registered).when(revoke, "credential_not_found");
    givenApplication(registered, credentialIssued("one")).when(revoke, [credentialRevoked("one")]);
    givenApplication(registered, credentialIssued("one"), credentialRevoked("one")).when(revoke, []);
  });

  it("repeating the approval or the withdrawal of a webhook origin changes nothing", () => {
    const approve = applications.approveWebhookOrigin({
      applicationId,
      origin: "https://HOOKS.example.com:443/path?query",
    });
    const withdraw = applications.withdrawWebhookOrigin({ applicationId, origin });
    givenApplication(registered).whenOnce(approve, approved);
    givenApplication(registered, approved).whenOnce(withdraw, withdrawn);
    for (const origin of ["hooks.example.com", "data:text/plain,x"])
      givenApplication(registered).when(applications.approveWebhookOrigin({ applicationId, origin }), "invalid_origin");
  });

  it("a revoked application cannot receive credentials or webhook origins", () => {
    givenApplication(registered).when(applications.revokeApplication({ applicationId, reason: null }), [
      applicationRevoked,
    ]);
    givenApplication(registered, applicationRevoked).when(
      applications.revokeApplication({ applicationId, reason: "again" }),
      [],
    );
    givenApplication(registered, applicationRevoked).when(issue("one"), "application_revoked");
    givenApplication(registered, applicationRevoked).when(
      applications.approveWebhookOrigin({ applicationId, origin }),
      "application_revoked",
    );
  });

  it("commands on an unknown application are refused", () => {
    for (const decide of [
      issue("one"),
      applications.revokeCredential({ applicationId, credentialId: "one" }),
      applications.revokeApplication({ applicationId, reason: null }),
    ])
      givenApplication().when(decide, "application_not_found");
  });
});
