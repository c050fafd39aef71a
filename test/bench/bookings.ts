/**
 * Measures creates of appointments that book a place, sent over 64 connections to a complete stack. Covers bookings of
 * one resource on one day, bookings on different days, and refusals. The reference is a create without a place. Also
 * measures the search for free times.
 *
 *     npm run bench -- bookings
 */
import { randomUUID } from "node:crypto";
import { addResource, setRule } from "../../command/operations/catalog-operations.ts";
import { setEntitlement } from "../../command/operations/clinic-operations.ts";
import { listSlots, type SearchedResource } from "../../shared/domain/scheduling/free-times.ts";
import { DAY_MS, MINUTE_MS } from "../../shared/domain/time/local-time.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { connectToLog } from "../support/connections.ts";
import { createPartnerWorld, createTestOperatorContext, type PartnerWorld } from "../support/partner.ts";
import { createPlainLog } from "../support/plain-log.ts";
import { mochaGlobalTeardown, startTestStack } from "../support/stack.ts";
import { findQuantiles, type LoadRequest, listPids, measureLoad } from "./load.ts";
import { printLoad, printRow } from "./report.ts";

const CONNECTION_COUNT = 64;
const START_MS = Date.parse("2099-05-04T00:00:00Z");

const stack = await startTestStack();
const origin = stack.urls.command;
const { command, eventstore, projection, postgres } = stack.components;
const pids = listPids({ command, eventstore, projection, postgres });
try {
  const log = createPlainLog(connectToLog(stack.servers.eventstoreUrl));
  const world = await createPartnerWorld({ url: origin, log }, "production", { rateLimitPerMinute: 100_000 });
  const context = createTestOperatorContext();
  const entitlement = { key: "scheduling.advanced", enabled: true, limit: null, effectiveUntil: null };
  await setEntitlement(log, { clinicId: world.clinicId, ...entitlement }, context);

  async function addRoom(capacity: number): Promise<string> {
    const { clinicId, branchId } = world;
    const resource = { resourceId: randomUUID(), clinicId, branchId, resourceType: "room", name: "Room", capacity };
    await addResource(log, { ...resource, timezone: "UTC", metadata: {} }, context);
    const { resourceId } = resource;
    for (let weekday = 0; weekday < 7; weekday += 1) {
      const validity = { validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null };
      const hours = { ruleId: randomUUID(), weekday, startsAt: "00:00:00", endsAt: "24:00:00" };
      await setRule(log, { clinicId, resourceId, ...hours, ...validity }, context);
    }
    return resourceId;
  }
  const measure = (createNextRequest: () => LoadRequest, status: number, measuredMs = 5_000) =>
    measureLoad({ origin, createNextRequest, status, pids, connectionCount: CONNECTION_COUNT, measuredMs });

  const createPlain = () => createRequest(world, { scheduledAt: toInstant(START_MS) });
  await measure(createPlain, 201);
  const plainLoad = await measure(createPlain, 201);
  printLoad("64 concurrent creates without a place", plainLoad, plainLoad);
  const sharedRoomId = await addRoom(1);
  let bookingCount = 0;
  // Less than a second fills a day, so the next one follows.
  const sharedLoad = await measure(() => {
    const scheduledAt = toInstant(START_MS + bookingCount++ * 15 * MINUTE_MS);
    return createRequest(world, { scheduledAt, resourceId: sharedRoomId, durationMinutes: 15 });
  }, 201);
  printLoad("64 concurrent bookings of one day", sharedLoad, plainLoad);
  const fullRoomId = await addRoom(1);
  const createRefused = () => createRequest(world, { scheduledAt: toInstant(START_MS), resourceId: fullRoomId });
  await fetch(`${origin}${createRefused().path}`, { ...createRefused(), body: createRefused().body ?? null });
  printLoad("64 concurrent refusals of one place", await measure(createRefused, 422), plainLoad);
  const otherRoomId = await addRoom(1);
  let dayCount = 0;
  const differentLoad = await measure(() => {
    const scheduledAt = toInstant(START_MS + dayCount++ * DAY_MS);
    return createRequest(world, { scheduledAt, resourceId: otherRoomId });
  }, 201);
  printLoad("64 concurrent bookings of different days", differentLoad, plainLoad);
  measureSearch();
} finally {
  await mochaGlobalTeardown();
}

function createRequest({ branchId, animalId, headers }: PartnerWorld, fields: object): LoadRequest {
  return {
    method: "POST",
    path: "/production/v1/appointments",
    headers: { ...headers, "Content-Type": "application/json", "Idempotency-Key": randomUUID() },
    body: JSON.stringify({ branchId, animalId, ...fields }),
  };
}

/** Measures the search for free times in a week: 20 resources with 20 appointments a day each. */
function measureSearch(): void {
  const rules = [1, 2, 3, 4, 5].flatMap((weekday) =>
    ["08:00-12:00", "13:00-18:00"].map((hours) => {
      const [startsAt = "", endsAt = ""] = hours.split("-").map((time) => `${time}:00`);
      const validity = { validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null };
      return { weekday, startsAt, endsAt, ...validity };
    }),
  );
  const resources = Array.from({ length: 20 }, (_, index): SearchedResource => {
    const occupations = Array.from({ length: 140 }, (__, count) => {
      const fromMs = START_MS + Math.floor(count / 20) * DAY_MS + (count % 20) * 37 * MINUTE_MS + 8 * 60 * MINUTE_MS;
      return { ownerId: `${count}`, fromMs, toMs: fromMs + 20 * MINUTE_MS };
    });
    return { id: `${index}`, capacity: 1, timezone: "Europe/Zurich", rules, occupations, closures: [] };
  });
  const search = { fromMs: START_MS, toMs: START_MS + 7 * DAY_MS, durationMinutes: 30, gridMinutes: 15, nowMs: 0 };
  const durations = Array.from({ length: 300 }, () => {
    const startedAt = performance.now();
    listSlots(resources, search, 1_000);
    return performance.now() - startedAt;
  });
  const { p50, p95, p99 } = findQuantiles(durations);
  const note = `p95 ${p95.toFixed(1)} ms, without the statement`;
  printRow({ name: "free times of a week, 20 resources", p50, p99, note });
}
