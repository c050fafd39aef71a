import { expect } from "chai";
import { createSessionCookie } from "../../deploy/local/demo-data/credentials.ts";
import { eventually } from "../support/eventually.ts";
import { sendRequest } from "../support/partner.ts";
import { createSandboxAppointment, type Partner, startPartnerApi } from "../support/partner-api.ts";
import { queryEnvironment } from "../support/query-environment.ts";
import { useResource } from "../support/resources.ts";
import { grantOwnership } from "./world.ts";

const PORTAL = {
  cookieName: queryEnvironment.PORTAL_COOKIE_NAME,
  jwtIssuer: queryEnvironment.PORTAL_JWT_ISSUER,
  jwtSecret: queryEnvironment.PORTAL_JWT_SECRET,
};

describe("sandboxes in the read models", () => {
  const api = useResource(startPartnerApi);

  const getSandbox = async (partner: Partner) => (await partner.request("GET", "/sandbox")).body.sandbox;
  const reset = async (partner: Partner) =>
    expect((await partner.request("POST", "/sandbox/reset")).status).to.equal(200);
  const createAppointment = async (partner: Partner, sandbox: Awaited<ReturnType<typeof getSandbox>>) => {
    const { status, body, text } = await createSandboxAppointment(partner, sandbox);
    expect(status, text).to.equal(201);
    return body.appointment.id as string;
  };

  it("a portal user of a sandbox sees only that sandbox's data since the last reset", async () => {
    const [partner, otherPartner] = [await api.createPartner(), await api.createPartner()];
    const [sandbox, otherSandbox] = [await getSandbox(partner), await getSandbox(otherPartner)];
    const userId = await grantOwnership(api.command.log, sandbox.clinicId);
    const Cookie = await createSessionCookie({ id: userId, email: "owner@example.test" }, PORTAL, Date.now());
    const requestPortal = (path: string) => sendRequest("GET", `${api.queryUrl}/api/v1${path}`, { Cookie });
    await eventually("the membership is known", async () => (await requestPortal("/clinic/context")).status === 200);

    const listIds = (records: { id: string }[]) => records.map(({ id }) => id).sort();
    expect(listIds((await requestPortal("/clinics")).body.clinics)).to.deep.equal([sandbox.clinicId]);
    const listAnimalIds = async () => {
      const { customers } = (await requestPortal("/customers")).body;
      return listIds(customers.flatMap(({ animals }: { animals: { id: string }[] }) => animals));
    };
    expect(await listAnimalIds()).to.deep.equal(listIds(sandbox.animals));
    const readAppointmentsText = async () => (await requestPortal("/appointments")).text;
    const ownAppointmentId = await createAppointment(partner, sandbox);
    const otherAppointmentId = await createAppointment(otherPartner, otherSandbox);
    // The read models reflect both appointments.
    for (const each of [partner, otherPartner]) await getSandbox(each);
    expect(await readAppointmentsText())
      .to.include(ownAppointmentId)
      .and.not.to.include(otherAppointmentId);
    for (const path of ["/branches", "/services", "/staff", "/availability", "/queue"]) {
      const { status, text } = await requestPortal(path);
      expect(status, path).to.equal(200);
      expect(text).not.to.include(otherSandbox.clinicId);
    }
    await reset(partner);
    await getSandbox(partner);
    expect(await readAppointmentsText()).not.to.include(ownAppointmentId);
    expect(await listAnimalIds()).to.have.length(sandbox.animals.length);
  });
});
