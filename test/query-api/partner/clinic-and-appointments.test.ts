import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { appointmentRequested, createIds, openClinic, resourceAllocated } from "../../support/clinics.ts";
import { installationApproved, registerApplication } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { type RequestOptions, setUpCaller, withBranchHeader } from "./caller.ts";

const marchQuery = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";

describe("partner reads of installations, clinic and appointments", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);

  describe("listInstallations", () => {
    const listInstallations = async () =>
      (await caller.readBody("listInstallations", "/installations")).installations as { clinicId: string }[];

    it("listInstallations lists only the clinics of the environment that have approved the application", async () => {
      const [otherClinic, revokedClinic, foreignClinic, sandboxClinic] = [
        await openClinic(api.given),
        await openClinic(api.given),
        await openClinic(api.given),
        await openClinic(api.given, { environment: "sandbox" }),
      ];
      const otherApplication = await registerApplication(api.given);
      const installationId = deriveInstallationId(caller.application.applicationId, revokedClinic.clinicId);
      await api.given(
        installationApproved(caller.application, otherClinic.clinicId, {
          branchIds: [otherClinic.branchId],
          scopes: ["clinic:read"],
          rateLimitPerMinute: 7,
        }),
        installationApproved(caller.application, revokedClinic.clinicId),
        { type: "InstallationRevoked", data: { installationId, reason: null } },
        installationApproved(caller.application, sandboxClinic.clinicId),
        installationApproved(otherApplication, foreignClinic.clinicId),
      );
      const installations = await listInstallations();
      expect(installations.map(({ clinicId }) => clinicId)).to.have.members([
        caller.clinic.clinicId,
        otherClinic.clinicId,
      ]);
      expect(installations.find(({ clinicId }) => clinicId === otherClinic.clinicId)).to.deep.equal({
        clinicId: otherClinic.clinicId,
        clinicName: "Happy Paws",
        scopes: ["clinic:read"],
        branchIds: [otherClinic.branchId],
        animalAccess: "all",
        rateLimitPerMinute: 7,
      });
    });

    it("listInstallations counts against the application's limit, not against an installation's limit", async () => {
      await api.given(installationApproved(caller.application, caller.clinic.clinicId, { rateLimitPerMinute: 1 }));
      await listInstallations();
      const { status, headers } = await caller.get("/installations");
      expect([status, headers.get("RateLimit-Limit"), headers.get("RateLimit-Remaining")]).to.eql([200, "120", "118"]);
    });
  });

  describe("getClinicContext", () => {
    it("the partner operation getClinicContext returns clinic, branches and installation", async () => {
      const { clinicId, branchId, otherBranchId } = caller.clinic;
      expect(await caller.readBody("getClinicContext", "/clinic/context")).to.deep.include({
        ok: true,
        clinic: {
          id: clinicId,
          slug: "happy-paws",
          name: "Happy Paws",
          timezone: "Europe/Istanbul",
          currency: "TRY",
          locale: "tr-TR",
          status: "active",
        },
        branches: [
          { id: branchId, name: "Center", city: null, isMain: true },
          { id: otherBranchId, name: "Harbour", city: null, isMain: false },
        ],
      });
    });

    it("getClinicContext lists only branches that belong to the installation and match the branch header", async () => {
      const { branchId, otherBranchId } = caller.clinic;
      const narrowedBody = await caller.readBody(
        "getClinicContext",
        "/clinic/context",
        withBranchHeader(branchId.toUpperCase()),
      );
      expect(narrowedBody.branches.map(({ id }: { id: string }) => id)).to.deep.equal([branchId]);
      await api.given(
        installationApproved(caller.application, caller.clinic.clinicId, {
          branchIds: [otherBranchId],
          scopes: ["clinic:read"],
        }),
      );
      const restrictedBody = await caller.readBody("getClinicContext", "/clinic/context");
      expect(restrictedBody.branches.map(({ id }: { id: string }) => id)).to.deep.equal([otherBranchId]);
      expect(restrictedBody.installation).to.deep.equal({
        scopes: ["clinic:read"],
        branchIds: [otherBranchId],
        animalAccess: "all",
        rateLimitPerMinute: 1_000,
      });
      expect(await caller.readRefusal("/clinic/context", withBranchHeader(branchId))).to.equal("403 branch_denied");
    });
  });

  describe("listPartnerAppointments", () => {
    const path = `/appointments?${marchQuery}`;
    const listAppointments = (query = "", options?: RequestOptions) =>
      caller.readBody("listPartnerAppointments", path + query, options);
    const listIds = (body: { appointments: { id: string }[] }) => body.appointments.map(({ id }) => id);

    it("listPartnerAppointments returns only the appointment fields that are meant for partners", async () => {
      const { clinicId, branchId } = caller.clinic;
      const [appointmentId, animalId] = createIds();
      const details = { appointmentId, animalId, notes: "n", reason: "not told", customerId: randomUUID() };
      await api.given(appointmentRequested(clinicId, branchId, "2026-03-10T09:00:00Z", details));
      expect(await listAppointments()).to.deep.equal({
        ok: true,
        window: { from: "2026-03-01T00:00:00.000Z", to: "2026-04-01T00:00:00.000Z", maximumDays: 31 },
        appointments: [
          {
            id: appointmentId,
            clinicId,
            branchId,
            animalId,
            scheduledAt: "2026-03-10T09:00:00.000Z",
            durationMinutes: 30,
            status: "requested",
            resources: [],
            notes: "n",
            revision: 0,
            createdAt: "2026-03-01T08:00:00.000Z",
            updatedAt: "2026-03-01T08:00:00.000Z",
          },
        ],
        page: { limit: 100, returned: 1, nextCursor: null },
      });
    });

    it("the `+` of a UTC offset need not be encoded in the query", async () => {
      const { window } = await listAppointments();
      for (const plus of ["+", "%2B"]) {
        const query = `from=2026-03-01T02:00:00${plus}02:00&to=2026-04-01T00:00:00.000${plus}00:00`;
        expect((await caller.readBody("listPartnerAppointments", `/appointments?${query}`)).window).to.eql(window);
      }
    });

    it("each change of an appointment increases the revision that listPartnerAppointments returns", async () => {
      const { clinicId, branchId } = caller.clinic;
      const appointmentId = randomUUID();
      await api.given(appointmentRequested(clinicId, branchId, "2026-03-10T09:00:00Z", { appointmentId }));
      const readRevision = async (): Promise<number> => (await listAppointments()).appointments[0].revision;
      const revisions = [await readRevision()];
      await api.given({ type: "AppointmentConfirmed", data: { appointmentId } });
      revisions.push(await readRevision());
      await api.given(resourceAllocated({ appointmentId, assignmentId: randomUUID(), resourceId: randomUUID() }));
      revisions.push(await readRevision());
      expect(revisions).to.deep.equal([0, 1, 2]);
    });

    it("the pages of listPartnerAppointments contain each appointment once, even if appointments start at the same time", async () => {
      const { clinicId, branchId } = caller.clinic;
      const events = Array.from({ length: 12 }, (_, index) =>
        appointmentRequested(clinicId, branchId, `2026-03-1${Math.floor(index / 5)}T09:00:00Z`),
      );
      await api.given(...events);
      const allIds = listIds(await listAppointments());
      const pages = await caller.readPageIds("listPartnerAppointments", `${path}&limit=4`, "appointments");
      expect([pages.flat(), pages.length]).to.deep.equal([allIds, 3]);
    });

    it("listPartnerAppointments returns only appointments of branches that the installation and the branch header permit", async () => {
      const { clinicId, branchId, otherBranchId } = caller.clinic;
      const [ownAppointmentId, otherAppointmentId] = createIds();
      const scheduledAt = "2026-03-10T09:00:00Z";
      await api.given(
        appointmentRequested(clinicId, branchId, scheduledAt, { appointmentId: ownAppointmentId }),
        appointmentRequested(clinicId, otherBranchId, scheduledAt, { appointmentId: otherAppointmentId }),
      );
      expect(listIds(await listAppointments())).to.have.members([ownAppointmentId, otherAppointmentId]);
      expect(listIds(await listAppointments("", withBranchHeader(otherBranchId)))).to.deep.equal([otherAppointmentId]);
      await api.given(installationApproved(caller.application, clinicId, { branchIds: [branchId] }));
      expect(listIds(await listAppointments())).to.deep.equal([ownAppointmentId]);
      expect(await caller.readRefusal(path, withBranchHeader(otherBranchId))).to.equal("403 branch_denied");
    });
  });

  describe("getPartnerAppointment", () => {
    it("getPartnerAppointment returns the same record as the list, to branches that the request covers", async () => {
      const { clinicId, branchId, otherBranchId } = caller.clinic;
      const appointmentId = randomUUID();
      await api.given(appointmentRequested(clinicId, branchId, "2026-03-10T09:00:00Z", { appointmentId, notes: "n" }));
      const path = `/appointments/${appointmentId}`;
      const { appointments } = await caller.readBody("listPartnerAppointments", `/appointments?${marchQuery}`);
      const expectedBody = { ok: true, appointment: appointments[0] };
      expect(await caller.readBody("getPartnerAppointment", path)).to.deep.equal(expectedBody);
      expect(await caller.readRefusal(path, withBranchHeader(otherBranchId))).to.equal("404 appointment_not_found");
      await api.given(installationApproved(caller.application, clinicId, { branchIds: [otherBranchId] }));
      expect(await caller.readRefusal(path)).to.equal("404 appointment_not_found");
    });
  });
});
