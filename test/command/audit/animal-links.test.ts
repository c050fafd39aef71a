import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createLinkCode, redeemLinkCode, withdrawLink } from "../../../command/operations/animal-link-operations.ts";
import { requestAppointment } from "../../../command/operations/appointment-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import {
  createApplication,
  createClinic,
  createTestOperatorContext,
  installApplication,
} from "../../support/partner.ts";
import { runAuditCommand } from "./cli-terminal.ts";
import { type AuditWorld, startAuditWorld } from "./world.ts";

const HOUR_MS = 3_600_000;
const START_MS = Date.parse("2026-05-04T08:00:00Z");

describe("the audit of links to an animal", () => {
  let world: AuditWorld;

  before(async () => {
    world = await startAuditWorld();
  });
  after(() => world.stop());

  const at = (hours: number) => createTestOperatorContext(START_MS + hours * HOUR_MS);
  const readLines = async (args: string[]) => {
    const { output, errorLines } = await runAuditCommand([...args, "--json"], { env: world.env });
    expect(errorLines).to.eql([]);
    return output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  };

  it("the audit tells who created, redeemed and withdrew a link, who could see the animal, and what was created for it", async () => {
    const { log } = world;
    const clinic = await createClinic(log);
    const { clinicId, branchId, animalId } = clinic;
    const application = await createApplication(log, "production");
    const { applicationId } = application;
    await installApplication(log, application, clinic, { animalAccess: "linked" });
    const owner = { applicationId, clinicId };
    const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));
    const codeRequest = { ...owner, animalId, covers: "appointments_write" as const, validityMs: 5 * HOUR_MS };
    const { code } = await createLinkCode({ log, linkCodes }, codeRequest, at(0));
    const partnerContext = { ...at(1), clinicId, actor: { type: "application" as const, id: applicationId } };
    await redeemLinkCode({ log, linkCodes }, { ...owner, code, sandbox: null }, partnerContext);
    const schedule = { scheduledAt: "2026-05-06T10:00:00.000Z", durationMinutes: 30 };
    const appointment = { appointmentId: randomUUID(), clinicId, branchId, animalId, ...schedule };
    await requestAppointment(log, { ...appointment, reason: null, notes: null }, at(2));
    await withdrawLink(log, { ...owner, animalId, requestedBy: "owner" }, at(3));

    const events = await readLines(["events", "--animal", animalId, "--from", "2026-05-04T08:00:00Z"]);
    const steps = events.flatMap(({ type, actor }) => (actor ? [`${type} by ${actor.type}`] : []));
    expect(steps).to.include.members([
      "AnimalLinkCodeCreated by operator",
      "AnimalLinked by application",
      "AppointmentRequested by operator",
      "AnimalLinkWithdrawn by operator",
    ]);
    const readLink = async (time: string) => {
      const [{ state }] = await readLines(["as-of", `animalConsent-${animalId}`, "--at", time]);
      return state?.applications[applicationId]?.link?.covers;
    };
    expect(await readLink("2026-05-04T08:30:00Z")).to.equal(undefined);
    expect(await readLink("2026-05-04T10:30:00Z")).to.equal("appointments_write");
    expect(await readLink("2026-05-04T11:30:00Z")).to.equal(undefined);
    const [approved] = await readLines(["events", "--clinic", clinicId, "--type", "InstallationApproved"]);
    expect(approved.data).to.include({ applicationId, animalAccess: "linked" });
  });
});
