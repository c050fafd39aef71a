import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { cancelAppointment } from "../../command/operations/appointment-operations.ts";
import { addResource, setRule } from "../../command/operations/catalog-operations.ts";
import { setEntitlement } from "../../command/operations/clinic-operations.ts";
import type { ResourceDayEvent } from "../../shared/domain/events/scheduling.ts";
import { foldReservations, type HolderEvent } from "../../shared/domain/scheduling/reservation-use.ts";
import { getWeekday, MINUTE_MS } from "../../shared/domain/time/local-time.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { postAppointment, spawnCommand } from "../command/partner-api/command-app.ts";
import { LogProcess, makeTemporaryDir } from "../deploy/eventstore/log-process.ts";
import { eventually } from "../support/eventually.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerResponse,
  type PartnerWorld,
  startTestCommandService,
  type TestCommand,
} from "../support/partner.ts";

const DATE = "2099-05-04";
const PARTNER_COUNT = 64;
const SLOT_COUNT = 40;
const SLOT_MINUTES = 15;
const CAPACITY = 2;

/** Duration of the bookings and kills. Milliseconds. */
const LOAD_MS = Number(process.env.BOOKING_LOAD_MS ?? 20_000);

const MAX_PAUSE_BETWEEN_KILLS_MS = 1_500;

/** Time after which an unused place can be booked again, even if a process was killed. Milliseconds. */
const MAX_BLOCKED_MS = 120_000;

type CommandProcess = Awaited<ReturnType<typeof spawnCommand>>;

const toTime = (slot: number) => toInstant(Date.parse(`${DATE}T09:00:00Z`) + slot * SLOT_MINUTES * MINUTE_MS);

describe("bookings while processes are killed", function () {
  this.timeout(LOAD_MS + 600_000);
  /** Undefined if EVENTSTORE_URL is set. The test does not kill an external log. */
  let log: LogProcess | undefined;
  let logUrl = process.env.EVENTSTORE_URL ?? "";
  let dir: string;
  let command: TestCommand;
  let world: PartnerWorld;
  const resourceId = randomUUID();
  /** Command processes. An element is undefined during a restart. */
  const processes: (CommandProcess | undefined)[] = [];

  before(async () => {
    dir = makeTemporaryDir();
    if (logUrl === "") {
      log = await LogProcess.start(dir);
      logUrl = `esdb://127.0.0.1:${log.port}?tls=false`;
    }
    command = await startTestCommandService({ EVENTSTORE_URL: logUrl });
    world = await createPartnerWorld(command);
    const { clinicId, branchId } = world;
    const context = createTestOperatorContext();
    const entitlement = { clinicId, key: "scheduling.advanced", enabled: true, limit: null, effectiveUntil: null };
    await setEntitlement(command.log, entitlement, context);
    const room = { resourceId, clinicId, branchId, resourceType: "room", name: "Room", capacity: CAPACITY };
    await addResource(command.log, { ...room, timezone: "UTC", metadata: {} }, context);
    const validity = { validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null };
    const hours = { weekday: getWeekday(DATE), startsAt: "09:00:00", endsAt: "19:00:00" };
    await setRule(command.log, { clinicId, resourceId, ruleId: randomUUID(), ...hours, ...validity }, context);
    for (let index = 0; index < 2; index += 1) processes.push(await startProcess());
  });
  /** Starts a command process. Retries, because the process exits while the log is down. */
  const startProcess = () =>
    eventually("the service starts", () => spawnCommand(command, logUrl).catch(() => undefined));
  const book = (url: string, slot: number, key: string): Promise<PartnerResponse | undefined> => {
    const fields = { scheduledAt: toTime(slot), resourceId, durationMinutes: SLOT_MINUTES };
    return postAppointment(url, world, key, fields).catch(() => undefined);
  };

  /** Kills and restarts a random process: a command process or the log. */
  async function killProcess(): Promise<void> {
    const index = Math.floor(Math.random() * (processes.length + (log ? 1 : 0)));
    const killedProcess = processes[index];
    if (killedProcess) {
      processes[index] = undefined;
      await killedProcess.stop("SIGKILL");
      processes[index] = await startProcess();
    } else if (log) {
      await log.kill("SIGKILL");
      log = await LogProcess.start(dir, log.port);
    }
  }

  /** Returns the start times of the places in use, by appointment id. */
  async function readUsedPlaces(): Promise<Map<string, string>> {
    const used = new Map<string, string>();
    const lastEvent = await command.log.readLast<ResourceDayEvent>(`resourceDay-${resourceId}.${DATE}`);
    for (const { holderId } of lastEvent?.data.reservations ?? []) {
      const uses = foldReservations(await command.log.read<HolderEvent>(`appointment-${holderId}`));
      for (const { place, endedAt } of uses.values())
        if (place && endedAt === undefined) used.set(holderId, place.startsAt);
    }
    return used;
  }

  it("no place is given twice, every confirmed booking is kept, and every unused place can be booked again", async () => {
    const endsAt = Date.now() + LOAD_MS;
    /** Start times of the confirmed bookings that were not cancelled, by appointment id. */
    const confirmed = new Map<string, string>();
    let cancelledCount = 0;
    let killCount = 0;

    async function cancel(appointmentId: string): Promise<void> {
      // From now on, the booking may or may not exist.
      confirmed.delete(appointmentId);
      const target = { clinicId: world.clinicId, appointmentId, reason: null };
      await cancelAppointment(command.log, target, createTestOperatorContext()).then(
        () => (cancelledCount += 1),
        () => undefined,
      );
    }
    async function runPartner(): Promise<void> {
      while (Date.now() < endsAt) {
        const [slot, key] = [Math.floor(Math.random() * SLOT_COUNT), randomUUID()];
        let response: PartnerResponse | undefined;
        do {
          const url = processes[Math.floor(Math.random() * processes.length)]?.url;
          response = url === undefined ? undefined : await book(url, slot, key);
          if (response === undefined || response.status === 503) await delay(50);
        } while ((response === undefined || response.status === 503) && Date.now() < endsAt);
        if (response?.status === 201) {
          const { id, scheduledAt } = response.body.appointment;
          confirmed.set(id, scheduledAt);
          if (Math.random() < 0.5) await cancel(id);
        } else if (response && response.status !== 503) expect(response.body.error).to.equal("slot_taken");
      }
    }
    async function killProcesses(): Promise<void> {
      while (Date.now() < endsAt) {
        await delay(Math.random() * MAX_PAUSE_BETWEEN_KILLS_MS);
        await killProcess();
        killCount += 1;
      }
    }
    await Promise.all([killProcesses(), ...Array.from({ length: PARTNER_COUNT }, runPartner)]);
    expect([killCount > 2, cancelledCount > 0], `${killCount} kills, ${cancelledCount} cancellations`).to.deep.equal([
      ...[true, true],
    ]);

    let used = await readUsedPlaces();
    for (const [id, time] of confirmed) expect(used.get(id), `confirmed booking ${id}`).to.equal(time);
    const countUsed = (places: Map<string, string>, slot: number) =>
      [...places.values()].filter((time) => time === toTime(slot)).length;
    for (let slot = 0; slot < SLOT_COUNT; slot += 1)
      expect(countUsed(used, slot), toTime(slot)).to.be.at.most(CAPACITY);

    for (let slot = 0; slot < SLOT_COUNT; slot += 1) {
      const label = `every place at ${toTime(slot)} can be booked`;
      await eventually(
        label,
        async () => {
          if (countUsed(used, slot) >= CAPACITY) return true;
          await book(command.url, slot, randomUUID());
          used = await readUsedPlaces();
          return false;
        },
        MAX_BLOCKED_MS,
      );
      const refused = await book(command.url, slot, randomUUID());
      expect(refused?.body.error, toTime(slot)).to.equal("slot_taken");
    }
    const all = await readUsedPlaces();
    for (let slot = 0; slot < SLOT_COUNT; slot += 1) expect(countUsed(all, slot), toTime(slot)).to.equal(CAPACITY);
    for (const [id, time] of confirmed) expect(all.get(id), `confirmed booking ${id}`).to.equal(time);
  });
});
