import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect } from "chai";
import { build } from "esbuild";
import fc from "fast-check";
import type { Decision } from "../../../shared/domain/aggregate.ts";
import type { Appointment } from "../../../shared/domain/appointment/appointment.ts";
import type { Resource } from "../../../shared/domain/clinic/resource.ts";
import { type AppointmentEvent, requestDefaults } from "../../../shared/domain/events/appointment.ts";
import type { ResourceDayEvent } from "../../../shared/domain/events/scheduling.ts";
import { findFullSpans, type Occupation } from "../../../shared/domain/scheduling/occupancy.ts";
import { foldReservations, type Place } from "../../../shared/domain/scheduling/reservation-use.ts";
import { findOverlaps, listDays } from "../../../shared/domain/scheduling/resource-day.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { NewEvent } from "../../../shared/eventstore/log.ts";
import { CrashError, type Fault, MemoryLog, Steps } from "./memory-log.ts";

type Process = typeof import("./booking-process.ts");

const HOUR_MS = 3_600_000;
const START_MS = Date.parse("2027-03-01T20:00:00.000Z");
const toTime = (hour: number) => toInstant(START_MS + hour * HOUR_MS);
const [clinicId, branchId, resourceId] = [randomUUID(), randomUUID(), randomUUID()];
const appointmentIds: string[] = Array.from({ length: 4 }, randomUUID);
const holdId = randomUUID();

const metadata = {
  ...{ $correlationId: randomUUID(), $causationId: randomUUID(), actor: { type: "operator", id: "test" } as const },
  ...{ clinicId, environment: "production" as const, occurredAt: toTime(-1) },
};
const createContext = (now: number) => ({
  ...{ actor: metadata.actor, clinicId, environment: metadata.environment, now },
  ...{ correlationId: metadata.$correlationId, causationId: metadata.$causationId },
});

type Action =
  | { kind: "request"; appointment: number; hour: number; hours: number }
  | { kind: "move" | "allocate"; appointment: number; hour: number; hours: number }
  | { kind: "cancel" | "release"; appointment: number }
  | { kind: "hold"; hour: number; hours: number; expiresAfterMs: number };

interface Command {
  action: Action;
  process: number;
  /** Current time of the command. Different commands have different clocks. */
  nowMs: number;
  fault: Fault | undefined;
}

const range = { hour: fc.integer({ min: 0, max: 5 }), hours: fc.integer({ min: 1, max: 3 }) };
const appointment = fc.nat({ max: appointmentIds.length - 1 });
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ kind: fc.constant("request" as const), appointment, ...range }),
  fc.record({ kind: fc.constantFrom("move", "allocate"), appointment, ...range }),
  fc.record({ kind: fc.constantFrom("cancel", "release"), appointment }),
  fc.record({ kind: fc.constant("hold" as const), ...range, expiresAfterMs: fc.constantFrom(1_000, 600_000) }),
);
const fault: fc.Arbitrary<Fault | undefined> = fc.option(
  fc.record({
    append: fc.integer({ min: 0, max: 3 }),
    kind: fc.constantFrom("crash", "unknown"),
    arrives: fc.constantFrom("before", "never", "later"),
  }),
  { nil: undefined, freq: 2 },
);
const command: fc.Arbitrary<Command> = fc.record({
  action,
  process: fc.nat({ max: 1 }),
  nowMs: fc.constantFrom(0, 0, 70_000, 200_000).map((ms) => START_MS - 2 * HOUR_MS + ms),
  fault,
});

describe("reservations of places, compared with a model", function () {
  this.timeout(300_000);
  const folder = mkdtempSync(join(tmpdir(), "booking-"));
  let processes: Process[] = [];

  before(async () => {
    const outfile = join(folder, "process.mjs");
    const entryPoints = [new URL("./booking-process.ts", import.meta.url).pathname];
    // The bundler of the tests would replace the whole expression, also in a text.
    const moduleUrl = ["import", "meta", "url"].join(".");
    const banner = { js: `import { createRequire } from "node:module"; const require = createRequire(${moduleUrl});` };
    await build({ entryPoints, outfile, bundle: true, platform: "node", format: "esm", banner, logLevel: "error" });
    processes = await Promise.all([0, 1].map((n) => import(`${pathToFileURL(outfile).href}?process=${n}`)));
  });
  after(() => rmSync(folder, { recursive: true }));

  it("no place is given twice, no acknowledged place is lost, and every unused place can be booked again", async () => {
    const arbitrary = fc.tuple(
      fc.array(command, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 2 }),
      fc.array(fc.nat({ max: 1_000 }), { minLength: 40, maxLength: 120 }),
    );
    await fc.assert(
      fc.asyncProperty(arbitrary, async ([commands, capacity, picks]) => {
        const world = createWorld(processes, capacity);
        const results = commands.map((each) => world.run(each));
        let pickCount = 0;
        await world.steps.run(Promise.all(results), (count) => {
          pickCount += 1;
          return count === 0 ? 0 : (picks[pickCount % picks.length] ?? 0) % count;
        });
        for (const [index, result] of (await Promise.all(results)).entries())
          world.requireAcknowledged(commands[index]!, result);
        await world.requireUnusedPlacesFree();
      }),
      { numRuns: Number(process.env.RUNS ?? 300) },
    );
  });
});

function createWorld(processes: Process[], capacity: number) {
  const steps = new Steps();
  const log = new MemoryLog(requireInvariants);
  const resource = { id: resourceId, clinicId, branchId, active: true, rules: {} } as unknown as Resource;
  const addition = {
    ...{ resourceId, clinicId, branchId, resourceType: "room", name: "Room", capacity, timezone: "UTC", metadata: {} },
  };
  const setUp: NewEvent = { id: randomUUID(), event: { type: "ResourceAdded", data: addition }, metadata };
  const setUpSteps = { wait: async () => undefined } as unknown as Steps;
  const ready = log
    .connect(setUpSteps, { conflict: Error, unavailable: Error })
    .append(`resource-${resourceId}`, -1n, [setUp]);

  /** Returns the places in use, according to the streams of appointments and holds. */
  function listUsed(): (Place & { holderId: string; reservationId: string })[] {
    return [...log.streams].flatMap(([stream, events]) => {
      if (!/^(appointment|hold)-/.test(stream)) return [];
      const holderId = stream.slice(stream.indexOf("-") + 1);
      return [...foldReservations(events as never)].flatMap(([reservationId, { place, endedAt }]) =>
        place && endedAt === undefined ? [{ ...place, holderId, reservationId }] : [],
      );
    });
  }

  function requireInvariants(): void {
    const used = listUsed();
    const toOccupation = ({ holderId: ownerId, startsAt, endsAt }: (typeof used)[number]): Occupation => {
      return { ownerId, fromMs: Date.parse(startsAt), toMs: Date.parse(endsAt) };
    };
    expect(findFullSpans(capacity + 1, used.map(toOccupation)), "places given twice").to.deep.equal([]);
    for (const [stream, events] of log.streams) {
      if (!stream.startsWith("resourceDay-")) continue;
      const { reservations } = (events.at(-1) as unknown as ResourceDayEvent).data;
      expect(findOverlaps({ capacity, fixtureOccupations: [] }, reservations), stream).to.deep.equal([]);
    }
    for (const { reservationId, ...place } of used) {
      for (const day of listDays(place)) {
        const lastEvent = log.streams.get(`resourceDay-${resourceId}.${day}`)?.at(-1) as ResourceDayEvent | undefined;
        const ids = lastEvent?.data.reservations.map((reservation) => reservation.reservationId);
        expect(ids, `a place in use is reserved on ${day}`).to.include(reservationId);
      }
    }
  }

  async function run({ action, process, nowMs, fault }: Command, commandSteps = steps): Promise<"done" | string> {
    await ready;
    const p = processes[process]!;
    const errors = { conflict: p.WrongExpectedRevisionError, unavailable: p.LogUnavailableError };
    const context = createContext(nowMs);
    const options = { sandbox: null, overbooks: false, context };
    const reservingLog = p.createReservingLog(log.connect(commandSteps, errors, fault), options);
    try {
      if (action.kind === "hold") {
        const times = { startsAt: toTime(action.hour), endsAt: toTime(action.hour + action.hours) };
        const placement = { holdId, clinicId, branchId, resourceId, ...times };
        const expiresAt = toInstant(nowMs + action.expiresAfterMs);
        const clinic = { branches: [{ id: branchId }] } as never;
        const decide = p.placeHold({ ...placement, expiresAt }, clinic, nowMs);
        await p.handle(reservingLog, p.holdAggregate, holdId, decide, context);
      } else {
        const id = appointmentIds[action.appointment]!;
        await p.handle(reservingLog, p.appointmentAggregate, id, decideAction(p, action, id, resource, nowMs), context);
      }
      return "done";
    } catch (error) {
      if (error instanceof CrashError) return "crashed";
      if (error instanceof p.DomainError) return error.code;
      if (error instanceof p.LogUnavailableError || error instanceof p.WrongExpectedRevisionError) return "unavailable";
      throw error;
    }
  }

  const book = (id: string, hour: number, hours: number, nowMs: number) => {
    const act: Action = { kind: "request", appointment: appointmentIds.indexOf(id), hour, hours };
    return run({ action: act, process: 0, nowMs, fault: undefined }, setUpSteps);
  };

  return {
    steps,
    run,
    /** Checks that a confirmed booking was recorded. */
    requireAcknowledged({ action }: Command, result: string): void {
      if (action.kind !== "request" || result !== "done") return;
      const events = log.streams.get(`appointment-${appointmentIds[action.appointment]}`) ?? [];
      expect(events.filter(({ type }) => type === "AppointmentRequested")).to.have.length(1);
    },
    async requireUnusedPlacesFree(): Promise<void> {
      // All commands have ended, and a minute has passed. Holds have expired.
      const nowMs = START_MS - HOUR_MS;
      for (let hour = 0; hour < 8; hour += 1) {
        const [fromMs, toMs] = [START_MS + hour * HOUR_MS, START_MS + (hour + 1) * HOUR_MS];
        const holders = new Set(
          listUsed()
            .filter(({ holderId: id }) => id !== holdId)
            .filter(({ startsAt, endsAt }) => Date.parse(startsAt) < toMs && Date.parse(endsAt) > fromMs)
            .map(({ holderId: id }) => id),
        );
        const id = randomUUID();
        appointmentIds.push(id);
        expect(await book(id, hour, 1, nowMs), `hour ${hour}`).to.equal(
          holders.size < capacity ? "done" : "slot_taken",
        );
        appointmentIds.pop();
      }
    },
  };
}

function decideAction(
  p: Process,
  action: Exclude<Action, { kind: "hold" }>,
  appointmentId: string,
  resource: Resource,
  nowMs: number,
): Decision<Appointment, AppointmentEvent> {
  const decide: unknown = (state: { assignments: { id: string; active: boolean }[] } | undefined) => {
    if (action.kind === "request") {
      if (state) return [];
      const details = { appointmentId, clinicId, branchId, scheduledAt: toTime(action.hour) };
      const place = { assignmentId: randomUUID(), resourceId };
      const data = { ...requestDefaults, ...details, durationMinutes: action.hours * 60, place };
      return [{ type: "AppointmentRequested", data }];
    }
    if (!state) return [];
    const [active] = state.assignments.filter((assignment) => assignment.active);
    if (!("hour" in action)) {
      if (action.kind === "cancel") return p.cancelAppointment(null, undefined)(state as never);
      return active ? p.releaseResource(active.id)(state as never) : [];
    }
    const [startsAt, endsAt] = [toTime(action.hour), toTime(action.hour + action.hours)];
    if (action.kind === "move")
      return p.rescheduleAppointment(
        { scheduledAt: startsAt, durationMinutes: action.hours * 60, reason: null },
        undefined,
        nowMs,
      )(state as never);
    const allocation = { assignmentId: randomUUID(), allocationStart: startsAt, allocationEnd: endsAt };
    return p.allocateResource(allocation, resource)(state as never);
  };
  return decide as Decision<Appointment, AppointmentEvent>;
}
