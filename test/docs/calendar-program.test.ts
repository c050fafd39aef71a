import { randomUUID } from "node:crypto";
import path from "node:path";
import { expect } from "chai";
import type { CommandResult } from "../../command/handling/handle.ts";
import { createLinkCode, withdrawLink } from "../../command/operations/animal-link-operations.ts";
import {
  cancelAppointment,
  confirmAppointment,
  requestAppointment,
  rescheduleAppointment,
} from "../../command/operations/appointment-operations.ts";
import { registerAnimal } from "../../command/operations/customer-operations.ts";
import { createLinkCodes } from "../../command/operations/link-codes.ts";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { createClinic, createTestOperatorContext, installApplication, type TestClinic } from "../support/partner.ts";
import type { Partner } from "../support/partner-api.ts";
import { makeTestRoot } from "../support/stack.ts";
import { type BusyProxy, startBusyProxy } from "./busy-proxy.ts";
import { type DocumentedService, startDocumentedService } from "./documented-service.ts";
import { type RunningProgram, run, skip, startProgram } from "./sample-programs.ts";

interface Appointment {
  id: string;
  animalId: string;
  notes?: string | null;
}

const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));

/** Runs the example program that copies a calendar. Kills it while it waits for responses. */
describe("the example program that keeps a calendar", function () {
  this.timeout(300_000);
  let service: DocumentedService;
  let proxy: BusyProxy;
  let clinic: TestClinic;
  let partner: Partner;
  /** An application that sees all animals of the clinic. */
  let inHouse: Partner;
  let env: Record<string, string>;
  let program: RunningProgram | undefined;
  /** Output lines of all stopped programs. */
  let lines: string[];
  /** Log position of the clinic's last change. */
  let position: bigint;
  let linkedAnimalIds: string[];
  /**
   * Request, such as `GET /events`. The program is killed after the service's response and before it gets the response.
   */
  let lostResponse: string | undefined;
  /** Refusals of the next requests. `request` consists of method and path, such as `GET /events`. */
  let refusals: { request: string; status: number; error: string }[];

  before(async function () {
    if (!findOnPath("python3")) return skip(this, "python3");
    service = await startDocumentedService();
    const toRequest = (method: string, requestPath: string) => `${method} ${requestPath.replace("/production/v1", "")}`;
    proxy = await startBusyProxy(service.origin, {
      refuse(method, requestPath) {
        const index = refusals.findIndex(({ request }) => request === toRequest(method, requestPath));
        return index < 0 ? undefined : refusals.splice(index, 1)[0];
      },
      async beforeResponse(method, requestPath) {
        if (lostResponse !== toRequest(method, requestPath)) return;
        await stopProgram();
        lostResponse = undefined;
      },
    });
  });

  beforeEach(async () => {
    const { log } = service.api.command;
    clinic = await createClinic(log);
    [partner, inHouse] = await Promise.all([
      service.api.createPartner("production"),
      service.api.createPartner("production"),
    ]);
    await installApplication(log, partner, clinic, { animalAccess: "linked" });
    await installApplication(log, inHouse, clinic, { animalAccess: "all" });
    env = {
      API: `${proxy.url}/production/v1`,
      CLIENT_ID: partner.applicationId,
      CLIENT_SECRET: partner.clientSecret,
      CLINIC_ID: clinic.clinicId,
      STATE: path.join(makeTestRoot(), "calendar.sqlite"),
    };
    [lines, linkedAnimalIds, refusals, position] = [[], [], [], 0n];
    // The installation's approval must be visible to the program.
    await inHouse.request("GET", "/installations");
  });

  afterEach(() => stopProgram());

  it("equals the clinic's calendar of the linked animals after kills, lost responses, refusals and changes while it was stopped", async () => {
    const otherAnimalId = await addAnimal();
    const hiddenAnimalId = await addAnimal();
    const first = await book(clinic.animalId);
    const other = await book(otherAnimalId);
    await book(hiddenAnimalId);
    linkedAnimalIds = [clinic.animalId];
    const code = await createCode(clinic.animalId);
    for (const request of [
      ...["POST /oauth/token", "POST /animal-links", "GET /clinic/context", "POST /appointments"],
      ...["GET /events", "GET /appointments"],
    ]) {
      lostResponse = request;
      startCalendar(code);
      await awaitKill(request);
    }
    startCalendar(code);
    // The earlier appointment, and the only one that the program has created.
    await awaitCopy(2);

    lostResponse = "GET /events";
    await change(rescheduleAppointment, first, { scheduledAt: "2099-06-01T10:00:00.000Z", reason: null });
    await awaitKill("GET /events");
    const second = await book(clinic.animalId);
    await change(cancelAppointment, first, { reason: null });
    await change(confirmAppointment, second, {});
    await change(confirmAppointment, other, {});
    linkedAnimalIds = [clinic.animalId, otherAnimalId];
    const otherCode = await createCode(otherAnimalId);
    refusals = [
      { request: "POST /animal-links", status: 429, error: "rate_limit_exceeded" },
      { request: "GET /events", status: 401, error: "invalid_token" },
      { request: "GET /events", status: 503, error: "read_model_behind" },
    ];
    startCalendar(code, otherCode);
    await awaitCopy(5);
    expect(refusals).to.eql([]);
    await change(rescheduleAppointment, second, { scheduledAt: "2099-06-02T10:00:00.000Z", reason: null });
    await awaitCopy(5);
    await stopProgram();

    const withdrawal = { applicationId: partner.applicationId, ...clinic, requestedBy: "owner" as const };
    remember(await withdrawLink(service.api.command.log, withdrawal, createTestOperatorContext()));
    await change(rescheduleAppointment, second, { scheduledAt: "2099-06-03T10:00:00.000Z", reason: null });
    await change(cancelAppointment, other, { reason: null });
    linkedAnimalIds = [otherAnimalId];
    startCalendar();
    await awaitCopy(2);
    await stopProgram();

    const eventIds = lines.flatMap((line) => /^appointment\.\w+ (.+)$/.exec(line)?.[1] ?? []);
    expect(eventIds).to.not.eql([]);
    expect(new Set(eventIds).size, "repeated events").to.equal(eventIds.length);
  });

  it("reads the calendar again if the service does not know the cursor", async () => {
    const appointmentId = await book(clinic.animalId);
    linkedAnimalIds = [clinic.animalId];
    startCalendar(await createCode(clinic.animalId));
    await awaitCopy(2);
    await stopProgram();
    await change(confirmAppointment, appointmentId, {});
    const otherClinic = await createClinic(service.api.command.log);
    await installApplication(service.api.command.log, inHouse, otherClinic);
    const foreignCursor = await eventually("a cursor of another clinic", async () => {
      const { body } = await inHouse.request("GET", "/events?after=latest", toHeaders(otherClinic));
      return body.cursor as string | undefined;
    });
    const script =
      "import os, sqlite3, sys; db = sqlite3.connect(os.environ['STATE']); db.execute('UPDATE feed SET cursor = ?', sys.argv[1:]); db.commit()";
    await run(["python3", "-c", script, foreignCursor], env);
    startCalendar();
    await awaitCopy(2);
  });

  it("prints a wrong code, and ends if the clinic has not approved the application", async () => {
    startCalendar("0000-0000-0000");
    await eventually("the message", () => program?.lines.includes("A link code is not valid"));
    await awaitCopy(0);
    await stopProgram();
    env = { ...env, CLINIC_ID: (await createClinic(service.api.command.log)).clinicId };
    startCalendar();
    const failure = await eventually("the end of the program", () => program?.getFailure());
    expect(failure).to.match(/^exit code 1: GET \/events: 403 installation_denied/);
  });

  const toHeaders = ({ clinicId }: TestClinic) => ({ headers: { "X-SERVICE-Clinic-ID": clinicId } });

  function startCalendar(...codes: string[]): void {
    program = startProgram(["python3", "keep_calendar.py", ...codes], env, "python");
  }

  async function stopProgram(): Promise<void> {
    const stoppedProgram = program;
    program = undefined;
    await stoppedProgram?.stop();
    lines.push(...(stoppedProgram?.lines ?? []));
  }

  const awaitKill = (request: string) =>
    eventually(`the kill before the response to ${request}`, () => {
      requireRunning();
      return program === undefined && lostResponse === undefined;
    });

  function requireRunning(): void {
    const failure = program?.getFailure();
    if (failure !== undefined) throw new Error(`The program ended with ${failure}`);
  }

  /** Waits until the program's copy equals the clinic's calendar. @param count expected number of appointments */
  const awaitCopy = (count: number) =>
    eventually(`a copy with ${count} appointments`, async () => {
      requireRunning();
      const calendar = await readCalendar();
      if (calendar?.length !== count) return false;
      const copy: Appointment[] = JSON.parse(await run(["python3", "keep_calendar.py", "--print"], env, "python"));
      return JSON.stringify(copy) === JSON.stringify(calendar);
    });

  /**
   * Reads the expected copy: all appointments of the linked animals.
   *
   * @returns undefined if a read is not yet possible
   */
  async function readCalendar(): Promise<Appointment[] | undefined> {
    const headers = { "X-SERVICE-Clinic-ID": clinic.clinicId, "X-SERVICE-Log-Position": String(position) };
    const { status, body } = await inHouse.request("GET", "/appointments?updatedSince=2000-01-01T00:00:00Z", {
      headers,
    });
    if (status === 503) return undefined;
    return (body.appointments as Appointment[])
      .filter(({ animalId }) => linkedAnimalIds.includes(animalId))
      .map(({ notes: _, ...appointment }) => appointment)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  function remember({ statePosition }: Pick<CommandResult<unknown>, "statePosition">): void {
    if (statePosition !== undefined) position = statePosition;
  }

  /** Creates an appointment as the clinic's staff would. */
  async function book(animalId: string): Promise<string> {
    const { clinicId, branchId } = clinic;
    const appointmentId = randomUUID();
    const request = { appointmentId, clinicId, branchId, animalId, scheduledAt: "2099-05-04T10:00:00.000Z" };
    remember(await requestAppointment(service.api.command.log, request, createTestOperatorContext()));
    return appointmentId;
  }

  async function change<Details extends object>(
    operation: (
      log: DocumentedService["api"]["command"]["log"],
      input: { clinicId: string; appointmentId: string } & Details,
      context: ReturnType<typeof createTestOperatorContext>,
    ) => Promise<CommandResult<unknown>>,
    appointmentId: string,
    details: Details,
  ): Promise<void> {
    const input = { clinicId: clinic.clinicId, appointmentId, ...details };
    remember(await operation(service.api.command.log, input, createTestOperatorContext()));
  }

  async function addAnimal(): Promise<string> {
    const animalId = randomUUID();
    const { clinicId, customerId } = clinic;
    const details = { name: "Duman", species: "dog", breed: null, sex: null, birthDate: null, microchip: null };
    const registration = { animalId, clinicId, customerId, ...details, weightKg: null };
    await registerAnimal(service.api.command.log, registration, createTestOperatorContext());
    return animalId;
  }

  async function createCode(animalId: string): Promise<string> {
    const { log } = service.api.command;
    const owner = { applicationId: partner.applicationId, clinicId: clinic.clinicId };
    const request = { ...owner, animalId, covers: "appointments_write" as const, validMinutes: 60 };
    return (await createLinkCode({ log, linkCodes }, request, createTestOperatorContext())).secrets.code;
  }
});
