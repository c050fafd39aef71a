import type { PartnerApplicationEvent } from "../../../../shared/domain/events/partner.ts";
import {
  applicationAggregate,
  decideApproveWebhookOrigin,
  decideIssueCredential,
  decideRegisterApplication,
  decideRevokeApplication,
  decideRevokeCredential,
  decideWithdrawWebhookOrigin,
} from "../../../../shared/domain/partner/application.ts";
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
const withdrawn: PartnerApplicationEvent = {
  type: "WebhookOriginWithdrawn",
  data: { applicationId, origin },
};
const applicationRevoked: PartnerApplicationEvent = {
  type: "ApplicationRevoked",
  data: { applicationId, reason: null },
};

const givenApplication = (...history: PartnerApplicationEvent[]) => given(applicationAggregate, ...history);
const issue = (credentialId: string) => decideIssueCredential({ credentialId, secretHash: "0".repeat(64) });

describe("partner application", () => {
  it("an application can be registered only once, and duplicate scopes are removed", () => {
    const register = decideRegisterApplication({ ...details, scopes: ["clinic:read", "clinic:read"] });
    givenApplication().when(register).thenEvents(registered);
    givenApplication(registered).when(register).thenRefused("application_exists");
  });

  it("an application has at most two active credentials", () => {
    givenApplication(registered).when(issue("one")).thenEvents(credentialIssued("one"));
    givenApplication(registered, credentialIssued("one")).when(issue("two")).thenEvents(credentialIssued("two"));
    const history = [registered, credentialIssued("one"), credentialIssued("two")];
    givenApplication(...history)
      .when(issue("three"))
      .thenRefused("too_many_credentials");
    givenApplication(...history, credentialRevoked("one"))
      .when(issue("three"))
      .thenEvents(credentialIssued("three"));
  });

  it("revoking a revoked credential changes nothing", () => {
    const revoke = decideRevokeCredential("one");
    givenApplication(registered).when(revoke).thenRefused("credential_not_found");
    givenApplication(registered, credentialIssued("one")).when(revoke).thenEvents(credentialRevoked("one"));
    givenApplication(registered, credentialIssued("one"), credentialRevoked("one")).when(revoke).thenEvents();
  });

  it("repeating the approval or the withdrawal of a webhook origin changes nothing", () => {
    const approve = decideApproveWebhookOrigin("https://HOOKS.example.com:443/path?query");
    const withdraw = decideWithdrawWebhookOrigin(origin);
    givenApplication(registered).when(approve).thenEvents(approved);
    givenApplication(registered, approved).when(approve).thenEvents();
    givenApplication(registered, approved).when(withdraw).thenEvents(withdrawn);
    givenApplication(registered, approved, withdrawn).when(withdraw).thenEvents();
    givenApplication(registered).when(decideApproveWebhookOrigin("hooks.example.com")).thenRefused("invalid_origin");
    givenApplication(registered).when(decideApproveWebhookOrigin("data:text/plain,x")).thenRefused("invalid_origin");
  });

  it("a revoked application cannot receive credentials or webhook origins", () => {
    givenApplication(registered).when(decideRevokeApplication(null)).thenEvents(applicationRevoked);
    givenApplication(registered, applicationRevoked).when(decideRevokeApplication("again")).thenEvents();
    givenApplication(registered, applicationRevoked).when(issue("one")).thenRefused("application_revoked");
    givenApplication(registered, applicationRevoked)
      .when(decideApproveWebhookOrigin(origin))
      .thenRefused("application_revoked");
  });

  it("commands on an unknown application are refused", () => {
    for (const decide of [issue("one"), decideRevokeCredential("one"), decideRevokeApplication(null)]) {
      givenApplication().when(decide).thenRefused("application_not_found");
    }
  });
});
