import { createHash } from "node:crypto";
import { DAY_MS } from "../../shared/domain/time/local-time.ts";

export interface NormalizerOptions {
  /**
   * First day of the recording, as YYYY-MM-DD. It becomes EXAMPLE_DAY. Times at a full quarter of an hour move with it.
   */
  day?: string;
  /** Origin to replace with `https://hooks.example.com`. */
  receiverOrigin?: string;
}

/** Day and time that replace those of a recording. */
const EXAMPLE_DAY = "2026-05-04";
const EXAMPLE_TIME = `${EXAMPLE_DAY}T09:21:04.120Z`;
const EXAMPLE_TIMESTAMP = Math.floor(Date.parse(EXAMPLE_TIME) / 1_000);

/** A time is recent if it differs from the current time by less than this. Milliseconds. */
const RECENT_MS = DAY_MS / 4;
const QUARTER_HOUR_MS = 15 * 60_000;

/** Replacements for fields whose values are secret, random or machine-dependent. */
const FIXED_VALUES: Readonly<Record<string, unknown>> = {
  access_token: "eyJhbGciOiJFZERTQSIsInR5cCI6ImF0K2p3dCJ9.eyJleGFtcGxlIjp0cnVlfQ.c2lnbmF0dXJl",
  client_secret: "cs_ZXhhbXBsZS1jbGllbnQtc2VjcmV0",
  secret: "whsec_ZXhhbXBsZS1zaWduaW5nLXNlY3JldA==",
  cursor: "ZXhhbXBsZS1jdXJzb3I",
  nextCursor: "ZXhhbXBsZS1jdXJzb3I",
  durationMs: 84,
  timestamp: EXAMPLE_TIMESTAMP,
};

const UUIDS = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const CALENDAR_DATE = /^\d{4}-\d\d-\d\d$/;

/**
 * Returns a function that makes JSON values of different recordings equal. It replaces ids, times, secrets and
 * durations. The n-th id always gets the same replacement.
 *
 * A recent time becomes EXAMPLE_TIME. A time at a full quarter of an hour only moves with the recording's day, because
 * it comes from the sandbox's fixture or from a request.
 */
export function createNormalizer({ day, receiverOrigin }: NormalizerOptions): (value: unknown) => unknown {
  const ids = new Map<string, string>();
  const shiftMs = day === undefined ? 0 : Date.parse(EXAMPLE_DAY) - Date.parse(day);
  const normalizeId = (id: string): string => {
    const exampleId = ids.get(id) ?? createExampleId(ids.size);
    ids.set(id, exampleId);
    return exampleId;
  };
  const normalizeText = (text: string): string => {
    if (INSTANT.test(text)) return normalizeInstant(Date.parse(text), shiftMs);
    // The body of a webhook request is a text.
    if (text.startsWith("{")) return JSON.stringify(normalize(JSON.parse(text)));
    if (CALENDAR_DATE.test(text)) return new Date(Date.parse(text) + shiftMs).toISOString().slice(0, 10);
    const publicText = receiverOrigin === undefined ? text : text.replace(receiverOrigin, "https://hooks.example.com");
    return publicText.replace(UUIDS, normalizeId);
  };
  const normalize = (value: unknown): unknown => {
    if (typeof value === "string") return normalizeText(value);
    if (Array.isArray(value)) return value.map(normalize);
    if (typeof value !== "object" || value === null) return value;
    const members = Object.entries(value).map(([name, member]) => {
      if (name === "slots") return [name, (member as object[]).map(normalize).map(fixSlotTime)];
      return [name, member !== null && name in FIXED_VALUES ? FIXED_VALUES[name] : normalize(member)];
    });
    return Object.fromEntries(members);
  };
  return normalize;
}

/** Replaces the times of a slot, which depend on the weekday and season of the recording. */
function fixSlotTime(slot: unknown, index: number): object {
  const minutes = String(index * 15).padStart(2, "0");
  return {
    ...(slot as object),
    startsAt: `2026-05-11T08:${minutes}:00.000Z`,
    localStart: `2026-05-11T09:${minutes}:00+01:00`,
  };
}

function normalizeInstant(time: number, shiftMs: number): string {
  if (time % QUARTER_HOUR_MS === 0) return new Date(time + shiftMs).toISOString();
  return Math.abs(time - Date.now()) < RECENT_MS ? EXAMPLE_TIME : new Date(time).toISOString();
}

/** Creates the n-th id in the format of a random UUID. The result is always the same. */
function createExampleId(index: number): string {
  const digits = createHash("sha256").update(`example ${index}`).digest("hex");
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `4${digits.slice(13, 16)}`,
    `a${digits.slice(17, 20)}`,
    digits.slice(20, 32),
  ].join("-");
}
