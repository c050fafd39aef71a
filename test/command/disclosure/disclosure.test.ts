import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect } from "chai";
import pg from "pg";
import type { Browser } from "playwright-core";
import type { Disclosure } from "../../../command/disclosure/collect-disclosure.ts";
import { renderDisclosure } from "../../../command/disclosure/render-disclosure.ts";
import { createLinkCode, redeemLinkCode } from "../../../command/operations/animal-link-operations.ts";
import { changeCustomer, registerCustomer } from "../../../command/operations/customer-operations.ts";
import { issueTicket } from "../../../command/operations/front-desk-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { recordAndDestroy } from "../../../command/operations/personal-data/erase-person.ts";
import { registerEndpoint } from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { findViolations } from "../../support/accessibility.ts";
import { startChromium } from "../../support/chromium.ts";
import { connectToLog } from "../../support/connections.ts";
import { createTestDataKeys, PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import {
  createApplication,
  createTestOperatorContext,
  installApplication,
  type TestApplication,
} from "../../support/partner.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  createClinicWithHistory,
  startAuditWorld,
  type TestAuditor,
} from "../audit/world.ts";
import { runClinic } from "../cli/terminal.ts";
import { createTicket } from "../operations/ticket.ts";

const ATTACK_HTML = `<img src=x onerror="document.title='attacked'">`;
const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32, 1).toString("base64") } });

describe("customer disclose", () => {
  let world: AuditWorld;
  let history: ClinicHistory;
  let foreignHistory: ClinicHistory;
  let auditor: TestAuditor;
  let application: TestApplication;
  let folder: string;

  before(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), "clinic-disclosure-"));
    world = await startAuditWorld();
    [history, foreignHistory] = [
      await createClinicWithHistory(world.log, ATTACK_HTML),
      await createClinicWithHistory(world.log),
    ];
    auditor = await world.registerAuditor(null);
    application = await createApplication(world.log);
    const { clinicId, customerId } = history;
    const details = { phone: "+41 41 555 0102", email: "ada@example.com" };
    const context = createTestOperatorContext(Date.parse("2026-05-05T08:00:00Z"));
    await changeCustomer(
      world.log,
      { customerId, clinicId, ...details },
      { ...context, actor: { type: "operator", id: "grace" } },
    );
    await registerTicket();
    await insertDelivery();
    await grantConsent();
    for (const query of [
      `events?customer=${customerId}`,
      `replay?stream=${history.stream}`,
      `events?clinic=${clinicId}&order=newest&limit=50`,
      `export?clinic=${clinicId}`,
      // Both events were stored later.
      `export?clinic=${clinicId}&to=2026-01-01T00:00:00Z`,
      // Neither the clinic nor a record of the customer
      `events?customer=${foreignHistory.customerId}`,
      `events?stream=clinic-${clinicId}`,
    ])
      expect((await auditor.request(`/audit/v1/${query}`)).status, query).to.equal(200);
  });
  after(async () => {
    await world?.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  });

  async function registerTicket(): Promise<void> {
    const { appointmentId, animalId } = history;
    const references = { appointmentId, animalId, arrivalType: "appointment" };
    const input = { ...createTicket(history), ...references, queueDate: "2026-05-06", notes: "In pain" };
    await issueTicket(world.log, input, createTestOperatorContext(Date.parse("2026-05-06T10:00:00Z")));
  }

  /** Links the animal to the application, and creates an unused link code. */
  async function grantConsent(): Promise<void> {
    const { log } = world;
    const { clinicId, animalId } = history;
    const owner = { applicationId: application.applicationId, clinicId };
    await installApplication(log, application, history, { animalAccess: "linked" });
    const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));
    const request = { ...owner, animalId, covers: "appointments_read" as const, validMinutes: 60 };
    const context = createTestOperatorContext();
    const { secrets } = await createLinkCode({ log, linkCodes }, request, context);
    await redeemLinkCode({ log, linkCodes }, { ...owner, ...secrets, sandbox: null }, { ...context, clinicId });
    await createLinkCode({ log, linkCodes }, { ...request, covers: "appointments_write" }, context);
  }

  /** Inserts a delivered webhook about the customer's appointment. */
  async function insertDelivery(): Promise<void> {
    const { clinicId, stream } = history;
    const { applicationId, environment } = application;
    const owner = { applicationId, clinicId, environment };
    const events = ["appointment.created" as const];
    const input = { owner, url: "https://hooks.example.com/path?token=secret", events };
    const { endpoint } = await registerEndpoint({ log: world.log, secretBox }, input, createTestOperatorContext());
    const client = new pg.Client(world.database.urls.projection);
    await client.connect();
    const id = randomUUID();
    await client.query(
      `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, branch_id, application_id, environment,
         event_id, event_type, appointment_id, event_position, status, cause_id, correlation_id, created_at, updated_at)
       VALUES ($1, $2, $3, $1, $4, 'production', $1, 'appointment.created', $5, 0, 'delivered', $1, $1, now(), now())`,
      [id, endpoint.id, clinicId, applicationId, stream.slice("appointment-".length)],
    );
    await client.query("INSERT INTO webhooks.attempt VALUES ($1, 1, now(), 42, 204, NULL, '')", [id]);
    await client.end();
  }

  const disclose = (output: string, ...args: string[]) => {
    const outputFile = path.join(folder, output);
    const words = ["customer", "disclose", "--customer", history.customerId, "--out", outputFile, "--actor", "ada"];
    return runClinic([...words, ...args], { env: { ...world.env, DATABASE_URL: world.database.urls.projection } });
  };

  async function readDisclosure(name: string, ...args: string[]): Promise<Disclosure> {
    const { code, errorLines } = await disclose(name, "--clinic", history.clinicId, ...args);
    expect([code, errorLines.filter((line) => line.startsWith("clinic:"))]).to.deep.equal([0, []]);
    return JSON.parse(fs.readFileSync(path.join(folder, name), "utf8"));
  }

  it("customer disclose writes all data of the customer, and who changed it when, as JSON", async () => {
    const { clinicId, customerId, animalId, appointmentId } = history;
    const disclosure = await readDisclosure("data.json");
    expect(fs.statSync(path.join(folder, "data.json")).mode & 0o777).to.equal(0o600);
    expect(disclosure.clinic).to.deep.equal({ id: clinicId, name: "Happy Paws", timezone: "Europe/Istanbul" });
    const contact = { fullName: "Ada Yilmaz", phone: "+41 41 555 0102", email: "ada@example.com", city: null };
    expect(disclosure.customer).to.deep.equal({ id: customerId, ...contact, erasedCategories: [] });
    expect(disclosure.animals.map(({ id, name }) => [id, name])).to.deep.equal([[animalId, "Pamuk"]]);
    expect(disclosure.appointments).to.have.length(1);
    expect(disclosure.appointments[0]).to.deep.include({ id: appointmentId, status: "cancelled", notes: ATTACK_HTML });
    const fields = [
      "scheduledAt",
      "durationMinutes",
      "status",
      "animalId",
      "branchId",
      "reason",
      "notes",
      "application",
    ];
    expect(disclosure.appointments[0]).to.have.all.keys("id", ...fields);
    expect(disclosure.queueTickets).to.have.length(1);
    expect(disclosure.queueTickets[0]).to.deep.include({ ticketNumber: "A7", status: "waiting", notes: "In pain" });
    const changes = disclosure.changes.map(({ type, actor }) => `${type} by ${actor.type} ${actor.id}`);
    expect(changes).to.deep.equal([
      "CustomerRegistered by operator test",
      "AnimalRegistered by operator test",
      "AppointmentRequested by operator test",
      "AppointmentConfirmed by operator test",
      "AppointmentCancelled by operator test",
      "CustomerDetailsChanged by operator grace",
      "QueueTicketIssued by operator test",
      "AnimalLinkCodeCreated by operator test",
      "AnimalLinked by operator test",
      "AnimalLinkCodeCreated by operator test",
    ]);
    const grantedAt = disclosure.changes.at(-2)?.occurredAt;
    const { applicationId } = application;
    expect(disclosure.consents).to.deep.equal([
      { animalId, application: { id: applicationId, name: "Calendar" }, covers: "appointments_read", grantedAt },
    ]);
    expect(disclosure.changes.find(({ type }) => type === "CustomerDetailsChanged")).to.deep.include({
      occurredAt: "2026-05-05T08:00:00.000Z",
      stream: `customer-${customerId}`,
      revision: 1,
      data: { customerId, ...contact },
    });
  });

  it("a disclosure lists who saw the data, the exports that contain it, and the disclosure itself", async () => {
    const { accesses, id } = await readDisclosure("accesses.json");
    const auditorAccesses = accesses.filter(({ actor }) => actor.type === "auditor");
    expect(auditorAccesses.map(({ action, extent }) => [action, extent])).to.deep.equal([
      ["events", "individual"],
      ["replay", "individual"],
      ["events", "possible"],
      ["export", "export"],
    ]);
    const actor = { type: "auditor", id: auditor.auditorId, name: "Ada Audit", note: null };
    expect(auditorAccesses[0]?.actor).to.deep.equal(actor);
    const ownAccess = accesses.at(-1);
    expect(ownAccess).to.deep.include({ id, action: "disclose", extent: "individual" });
    expect(ownAccess?.actor).to.deep.include({ type: "operator", id: "ada" });
    const { lines } = await auditor.request(`/audit/v1/accesses?clinic=${history.clinicId}`);
    expect(lines.at(-2).accessId).to.equal(id);
  });

  it("a disclosure lists which application received webhooks, without the path of the endpoint", async () => {
    const { deliveries } = await readDisclosure("deliveries.json");
    expect(deliveries).to.have.length(1);
    expect(deliveries[0]).to.deep.include({
      application: { id: application.applicationId, name: "Calendar" },
      type: "appointment.created",
      endpointOrigin: "https://hooks.example.com",
      appointmentId: history.appointmentId,
      status: "delivered",
    });
    expect(deliveries[0]?.lastAttempt?.statusCode).to.equal(204);
  });

  it("customer disclose overwrites no file, and discloses no customer of another clinic", async () => {
    fs.writeFileSync(path.join(folder, "exists.json"), "kept");
    const refusedResult = await disclose("exists.json", "--clinic", history.clinicId);
    expect([refusedResult.code, refusedResult.errorLines.at(-1)]).to.satisfy(
      ([code, line]: [number, string]) => code === 2 && line.includes("already exists"),
    );
    expect(fs.readFileSync(path.join(folder, "exists.json"), "utf8")).to.equal("kept");
    for (const clinicId of [foreignHistory.clinicId, randomUUID()]) {
      const { code, errorLines } = await disclose("foreign.json", "--clinic", clinicId);
      expect([code, errorLines.at(-1)]).to.satisfy(
        ([exitCode, line]: [number, string]) => exitCode === 3 && line.includes("_not_found"),
      );
    }
    expect(fs.existsSync(path.join(folder, "foreign.json"))).to.equal(false);
    const { errorLines } = await disclose("x.json", "--clinic", history.clinicId, "--format", "pdf");
    expect(errorLines.at(-1)).to.match(/--format/);
  });

  describe("as a printable page", () => {
    let browser: Browser;

    before(async () => {
      browser = await startChromium();
    });

    it("the printable disclosure contains no scripts, fits screen and paper, and shows stored text as text", async () => {
      const { code } = await disclose("page.html", "--clinic", history.clinicId, "--format", "html");
      expect(code).to.equal(0);
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      const requests: string[] = [];
      page.on("request", (request) => requests.push(request.url()));
      await page.goto(pathToFileURL(path.join(folder, "page.html")).href);
      expect(await page.title()).to.equal("Personal data of Ada Yilmaz");
      expect(await page.locator("script, img").count()).to.equal(0);
      expect(requests).to.have.length(1);
      await page.getByText(ATTACK_HTML).first().waitFor();
      const appointmentText = await page.getByRole("region", { name: "Appointments" }).innerText();
      expect(appointmentText).to.contain("2026-05-06 13:00:00 Europe/Istanbul").and.contain("2026-05-06 10:00:00 UTC");
      await page.setViewportSize({ width: 390, height: 800 });
      expect(await page.evaluate("document.documentElement.scrollWidth")).to.be.at.most(390);
      // On A4, the printed page has a width of 180 mm, which is 680 CSS pixels.
      await page.emulateMedia({ media: "print" });
      await page.setViewportSize({ width: 680, height: 1000 });
      expect(await page.evaluate("document.documentElement.scrollWidth"), "printed width").to.be.at.most(680);
    });

    it("the printable disclosure has no accessibility violations, and names erased data", async () => {
      const disclosure = await readDisclosure("erased.json");
      const customer = { ...disclosure.customer, erasedCategories: ["contact" as const] };
      const page = await browser.newPage();
      // The policy of the document also forbids the scripts of the check, so the check runs without the policy.
      await page.setContent(renderDisclosure({ ...disclosure, customer }).replace(/<meta http-equiv[^>]*>/, ""));
      await page.getByText("Erased data: contact.").waitFor();
      expect(await findViolations(page)).to.deep.equal([]);
    });
  });

  it("a disclosure contains encrypted data, and after an erasure only neutral values and the erasure", async () => {
    const { clinicId } = history;
    const client = connectToLog(world.env.EVENTSTORE_URL ?? "");
    const pool = new pg.Pool({ connectionString: world.database.urls.command, max: 1 });
    try {
      const log = createEventLog(client, { dataKeys: createTestDataKeys(pool) });
      const customerId = randomUUID();
      const contact = { fullName: "Ana Kos", phone: "+41 41 555 0103", email: null, city: "Zug" };
      await registerCustomer(log, { clinicId, customerId, ...contact }, createTestOperatorContext());
      const { customer } = await readDisclosure("encrypted.json", "--customer", customerId);
      expect(customer).to.deep.equal({ id: customerId, ...contact, erasedCategories: [] });
      const person = { type: "customer", id: customerId, clinicId } as const;
      const erasure = { categories: ["contact" as const], cause: "request" as const, reason: "Letter of May 4" };
      await recordAndDestroy({ log, pool }, person, erasure, createTestOperatorContext());
      const erasedDisclosure = await readDisclosure("after-erasure.json", "--customer", customerId);
      const neutralContact = { fullName: "(erased)", phone: null, email: null, city: null };
      const erasedCustomer = { id: customerId, ...neutralContact, erasedCategories: ["contact"] };
      expect(erasedDisclosure.customer).to.deep.equal(erasedCustomer);
      expect(erasedDisclosure.changes.map(({ type }) => type)).to.deep.equal([
        "CustomerRegistered",
        "CustomerDataErased",
      ]);
      expect(JSON.stringify(erasedDisclosure)).not.to.match(/Ana Kos|555 0103/);
    } finally {
      await Promise.all([client.dispose(), pool.end()]);
    }
  });

  it("a disclosure names no application whose stream was deleted, and is complete otherwise", async () => {
    const client = connectToLog(world.env.EVENTSTORE_URL ?? "");
    await client.tombstoneStream(`partnerApplication-${application.applicationId}`);
    const { deliveries, consents } = await readDisclosure("deleted-application.json");
    for (const entries of [deliveries, consents]) {
      expect(entries).to.have.length(1);
      expect(entries[0]?.application).to.deep.equal({ id: application.applicationId, name: null });
    }
  });

  it("a disclosure names each record whose events were deleted from the log", async () => {
    const { clinicId, customerId, animalId, stream } = await createClinicWithHistory(world.log);
    const client = connectToLog(world.env.EVENTSTORE_URL ?? "");
    await client.tombstoneStream(stream);
    await client.deleteStream(`animal-${animalId}`);
    const options = ["--clinic", clinicId, "--customer", customerId];
    const { animals, appointments, limits } = await readDisclosure("deleted-records.json", ...options);
    expect([animals, appointments]).to.deep.equal([[], []]);
    for (const name of [stream, `animal-${animalId}`])
      expect(limits).to.include(`Events of ${name} are not included, because they were deleted from the event log.`);
  });
});
