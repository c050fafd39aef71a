import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Permission } from "../../../shared/domain/events/people.ts";
import {
  allPermissions,
  animalRegistered,
  appointmentRequested,
  createIds,
  customerRegistered,
  membershipGranted,
  openClinic,
  queueTicketIssued,
  serviceOffered,
  staffMemberHired,
} from "../../support/clinics.ts";
import { setUpQueryApi } from "../../support/query-api.ts";

const createdAt = "2026-03-01T08:00:00.000Z";

describe("portal reads of services, staff and customers", () => {
  const api = setUpQueryApi();

  describe("listServices, listStaff and listCustomerProjections", () => {
    const readList = (listName: string, userId: string, query = "") => api.read(`/api/v1/${listName}${query}`, userId);

    /** Creates a member of the clinic with all permissions except one. @returns the user's id */
    async function createMemberWithoutPermission(clinicId: string, missingPermission: Permission) {
      const userId = randomUUID();
      const permissions = allPermissions.filter((permission) => permission !== missingPermission);
      await api.given(membershipGranted(clinicId, userId, { permissions }));
      return userId;
    }

    describe("listServices", () => {
      async function offerService(clinicId: string, name: string, price = 10, category: string | null = null) {
        const serviceId = randomUUID();
        await api.given(serviceOffered({ serviceId, clinicId, name, category, price }));
        return serviceId;
      }

      it("listServices returns active services sorted by name, with exact prices", async () => {
        const { clinicId, userId } = await openClinic(api.given);
        const secondServiceId = await offerService(clinicId, "Vaccine");
        const firstServiceId = await offerService(clinicId, "Check-up", 0.1, "Visits");
        await api.given({ type: "ServiceRepriced", data: { serviceId: secondServiceId, price: 1234567.89 } });
        const body = await readList("services", userId);
        expect(body.context).to.deep.equal({ clinicId, currency: "TRY" });
        const commonFields = { currency: "TRY", taxable: true, active: true, createdAt };
        expect(body.services).to.deep.equal([
          { id: firstServiceId, name: "Check-up", category: "Visits", price: 0.1, ...commonFields },
          { id: secondServiceId, name: "Vaccine", category: null, price: 1234567.89, ...commonFields },
        ]);
        expect(body.page).to.deep.equal({ limit: 50, returned: 2 });
      });

      it("listServices returns withdrawn services only with `includeInactive=true` and the permission `manage_tenant`", async () => {
        const { clinicId, userId } = await openClinic(api.given);
        const serviceId = await offerService(clinicId, "Old");
        await api.given({ type: "ServiceWithdrawn", data: { serviceId } });
        const count = async (callerId: string, query: string) =>
          (await readList("services", callerId, query)).page.returned;
        expect(await count(userId, "?includeInactive=true")).to.equal(1);
        for (const query of ["", "?includeInactive=TRUE", "?includeInactive=1"])
          expect(await count(userId, query)).to.equal(0);
        expect(await count(userId, "?includeInactive=true&includeInactive=true")).to.equal(0);
        const userIdWithoutPermission = await createMemberWithoutPermission(clinicId, "manage_tenant");
        expect(await count(userIdWithoutPermission, "?includeInactive=true")).to.equal(0);
        await api.given({ type: "ServiceReinstated", data: { serviceId } });
        expect(await count(userIdWithoutPermission, "")).to.equal(1);
      });

      it("listServices returns at most `limit` services, and clamps `limit`", async () => {
        const { clinicId, userId } = await openClinic(api.given);
        for (const name of ["A", "B", "C"]) await offerService(clinicId, name);
        expect((await readList("services", userId, "?limit=2")).page).to.deep.equal({ limit: 2, returned: 2 });
        expect((await readList("services", userId, "?limit=1000")).page).to.deep.equal({ limit: 100, returned: 3 });
      });
    });

    describe("listStaff", () => {
      async function hireStaff(clinicId: string, fullName: string | null, userId: string | null = null) {
        const staffId = randomUUID();
        await api.given(staffMemberHired({ staffId, clinicId, userId, fullName }));
        return staffId;
      }

      it("listStaff returns staff members with their access, sorted by name, with nameless staff members last", async () => {
        const { clinicId, branchId, userId } = await openClinic(api.given);
        const [otherUserId, membershipId] = createIds();
        const namelessId = await hireStaff(clinicId, null);
        const zeynepId = await hireStaff(clinicId, "Zeynep", otherUserId);
        const aliId = await hireStaff(clinicId, "Ali", userId);
        await api.given(
          membershipGranted(clinicId, otherUserId, {
            membershipId,
            staffId: zeynepId,
            branchAccess: "scoped",
            branchIds: [branchId],
            acceptedAt: null,
          }),
          { type: "StaffMemberDeactivated", data: { staffId: namelessId } },
        );
        const { staff, clinicId: currentClinicId } = await readList("staff", userId);
        expect(currentClinicId).to.equal(clinicId);
        expect(staff.map(({ id }: { id: string }) => id)).to.deep.equal([aliId, zeynepId, namelessId]);
        expect(staff[0].access).to.deep.include({ status: "active", branchAccess: "all", branchIds: [] });
        expect(staff[1]).to.deep.equal({
          id: zeynepId,
          userId: otherUserId,
          fullName: "Zeynep",
          email: null,
          role: "veterinarian",
          active: true,
          createdAt,
          access: { membershipId, status: "invited", branchAccess: "scoped", branchIds: [branchId], acceptedAt: null },
        });
        expect([staff[2].active, staff[2].access]).to.deep.equal([false, null]);
      });

      it("listStaff returns the active membership of a staff member who also has a revoked membership", async () => {
        const { clinicId, userId } = await openClinic(api.given);
        const staffId = await hireStaff(clinicId, "Ali");
        const [oldMembershipId, currentMembershipId] = createIds();
        const otherUserId = randomUUID();
        await api.given(
          {
            ...membershipGranted(clinicId, otherUserId, { membershipId: currentMembershipId, staffId }),
            at: createdAt,
          },
          {
            ...membershipGranted(clinicId, otherUserId, { membershipId: oldMembershipId, staffId }),
            at: "2026-04-01T00:00:00.000Z",
          },
          { type: "MembershipRevoked", data: { membershipId: oldMembershipId, reason: null } },
        );
        expect((await readList("staff", userId)).staff[0].access.membershipId).to.equal(currentMembershipId);
      });

      it("listStaff returns the oldest active membership, which decides about access", async () => {
        const { clinicId, branchId, userId } = await openClinic(api.given);
        await hireStaff(clinicId, "Ali", userId);
        const { access } = (await readList("staff", userId)).staff[0];
        await api.given({
          ...membershipGranted(clinicId, userId, { branchAccess: "scoped", branchIds: [branchId] }),
          at: "2026-04-01T00:00:00.000Z",
        });
        expect((await readList("staff", userId)).staff[0].access).to.deep.equal(access);
      });
    });

    describe("listCustomerProjections", () => {
      it("listCustomerProjections returns customers with their animals, sorted by name", async () => {
        const { clinicId, userId } = await openClinic(api.given);
        const [ada, zoe, cat, dog] = createIds();
        await api.given(
          customerRegistered(clinicId, zoe, { fullName: "Zoe" }),
          customerRegistered(clinicId, ada, { fullName: "Ada", email: "ada@example.com", phone: "+90 1" }),
          animalRegistered(clinicId, ada, dog, { name: "Karabas", species: "dog", weightKg: 20.55 }),
          animalRegistered(clinicId, ada, cat, { name: "Bidik", birthDate: "2020-02-29", microchip: "9" }),
        );
        const body = await readList("customers", userId);
        expect(body.context).to.deep.equal({ clinicId, identityOwner: "Test Operator" });
        expect(body.page).to.deep.equal({ limit: 50, offset: 0, returned: 2 });
        const timestamps = { createdAt, updatedAt: createdAt };
        const emptyFields = { breed: null, sex: null, updatedAt: createdAt };
        expect(body.customers).to.deep.equal([
          {
            id: ada,
            fullName: "Ada",
            phone: "+90 1",
            email: "ada@example.com",
            city: null,
            ...timestamps,
            animals: [
              {
                id: cat,
                name: "Bidik",
                species: "cat",
                birthDate: "2020-02-29",
                weightKg: null,
                microchip: "9",
                ...emptyFields,
              },
              {
                id: dog,
                name: "Karabas",
                species: "dog",
                birthDate: null,
                weightKg: 20.55,
                microchip: null,
                ...emptyFields,
              },
            ],
          },
          { id: zoe, fullName: "Zoe", phone: null, email: null, city: null, ...timestamps, animals: [] },
        ]);
      });

      it("listCustomerProjections pages through customers by `offset` and `limit`", async () => {
        const { clinicId, userId } = await openClinic(api.given);
        for (const fullName of ["C", "A", "B"])
          await api.given(customerRegistered(clinicId, randomUUID(), { fullName }));
        const readNames = async (query: string) => {
          const { customers } = await readList("customers", userId, query);
          return customers.map(({ fullName }: { fullName: string }) => fullName).join("");
        };
        expect(await readNames("?limit=2")).to.equal("AB");
        expect(await readNames("?limit=2&offset=2")).to.equal("C");
        expect(await readNames("?offset=-3")).to.equal("ABC");
        expect(await readNames("?offset=1&offset=1")).to.equal("ABC");
        expect(await readNames(`?offset=${"9".repeat(30)}`)).to.equal("");
      });

      it("listCustomerProjections omits another clinic's animal, even if the animal refers to a customer of this clinic", async () => {
        const { clinicId, userId } = await openClinic(api.given);
        const otherClinic = await openClinic(api.given);
        const customerId = randomUUID();
        await api.given(
          customerRegistered(clinicId, customerId),
          animalRegistered(otherClinic.clinicId, customerId, randomUUID()),
        );
        expect((await readList("customers", userId)).customers[0].animals).to.deep.equal([]);
      });
    });
  });

  const erasure = { cause: "request", reason: "Request 17" } as const;

  describe("portal responses after an erasure", () => {
    it("the portal shows neutral values that fit the contract, and keeps appointments, tickets and staff", async () => {
      const { clinicId, branchId, userId } = await openClinic(api.given);
      const [customerId, animalId, ticketId, staffId] = createIds();
      const contact = { fullName: "Ada Yilmaz", phone: "+90 1", email: "ada@example.com", city: "Izmir" };
      const visit = { animalId, customerId, reason: "Limps", notes: "Bites" };
      await api.given(
        customerRegistered(clinicId, customerId, contact),
        animalRegistered(clinicId, customerId, animalId, { breed: "Van", sex: "female", microchip: "9", weightKg: 4 }),
        appointmentRequested(clinicId, branchId, "2026-03-10T12:00:00Z", visit),
        queueTicketIssued({ ticketId, clinicId, branchId, animalId, customerId, notes: "Nervous" }),
        staffMemberHired({ staffId, clinicId, fullName: "Zoe Lind", email: "zoe@example.com", role: "owner" }),
        { type: "CustomerDataErased", data: { customerId, categories: ["contact", "animal", "notes"], ...erasure } },
        { type: "StaffDataErased", data: { staffId, categories: ["contact"], ...erasure } },
      );
      const { customers } = await api.read("/api/v1/customers", userId);
      expect(customers[0]).to.include({ id: customerId, fullName: "(erased)", phone: null, email: null, city: null });
      const neutralAnimal = { name: "(erased)", species: "(erased)", breed: null, sex: null, microchip: null };
      expect(customers[0].animals[0]).to.include({ id: animalId, ...neutralAnimal, weightKg: 4 });
      const range = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";
      const { appointments } = await api.read(`/api/v1/appointments?${range}`, userId);
      expect(appointments[0]).to.include({ reason: null, notes: null, scheduledAt: "2026-03-10T12:00:00.000Z" });
      expect(appointments[0].customer).to.deep.equal({ id: customerId, fullName: "(erased)" });
      expect(appointments[0].animal).to.include({ id: animalId, name: "(erased)", species: "(erased)" });
      const queue = await api.read("/api/v1/queue", userId);
      expect(JSON.stringify(queue)).to.contain(ticketId).and.not.contain("Nervous");
      const { staff } = await api.read("/api/v1/staff", userId);
      expect(staff[0]).to.include({ id: staffId, fullName: null, email: null, role: "owner" });
    });
  });
});
