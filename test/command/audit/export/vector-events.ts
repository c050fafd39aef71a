/** Fixed stored events, from which the test vectors of the export format are built. */
import type { RecordedEvent } from "@eventstore/db-client";
import { type AuditEvent, toLogEvent } from "../../../../command/audit/log/audit-event.ts";

export const CLINIC_ID = "11111111-1111-4111-8111-111111111111";
export const OTHER_CLINIC_ID = "22222222-2222-4222-8222-222222222222";

const metadata = {
  $correlationId: "33333333-3333-4333-8333-333333333333",
  $causationId: "44444444-4444-4444-8444-444444444444",
  actor: { type: "operator", id: "ada" },
  clinicId: CLINIC_ID,
  environment: null,
  schemaVersion: 1,
  occurredAt: "2026-05-04T08:00:00.000Z",
};

interface EventFields {
  type: string;
  data: unknown;
  metadata?: unknown;
}

/**
 * Creates the n-th event of one stream. Log position, id and storage time are derived from the number.
 *
 * @param number counted from 1
 */
function toAuditEvent(number: number, fields: EventFields): AuditEvent {
  const storedEvent = {
    streamId: "appointment-55555555-5555-4555-8555-555555555555",
    revision: BigInt(number - 1),
    id: `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`,
    isJson: !(fields.data instanceof Uint8Array),
    metadata,
    created: new Date(Date.UTC(2026, 4, 4, 8, number)),
    ...fields,
  } as RecordedEvent;
  return toLogEvent(storedEvent, BigInt(number * 1000)).auditEvent;
}

const toAuditEvents = (fields: EventFields[]) => fields.map((event, index) => toAuditEvent(index + 1, event));

const appointment = { appointmentId: "55555555-5555-4555-8555-555555555555" };
const cancellation: EventFields = {
  type: "AppointmentCancelled",
  data: { ...appointment, reason: "Umzug nach Köln" },
};

export const exampleEvents = toAuditEvents([{ type: "AppointmentConfirmed", data: appointment }, cancellation]);

export const historyEvents = toAuditEvents([
  { type: "AppointmentConfirmed", data: appointment },
  { type: "AppointmentCheckedIn", data: appointment },
  { type: "AppointmentPutInWaiting", data: appointment },
  { type: "ConsultationStarted", data: appointment },
  cancellation,
]);

/** The events of {@link historyEvents}, mixed with events of no clinic and of another clinic, which an export omits. */
export const mixedEvents = toAuditEvents([
  ...historyEvents.slice(0, 2).map(({ type, data }) => ({ type, data })),
  { type: "AppointmentConfirmed", data: appointment, metadata: { ...metadata, clinicId: OTHER_CLINIC_ID } },
  { type: "AppointmentConfirmed", data: appointment, metadata: { ...metadata, clinicId: null } },
  { type: "AppointmentConfirmed", data: { ...appointment, clinicId: OTHER_CLINIC_ID } },
  ...historyEvents.slice(2).map(({ type, data }) => ({ type, data })),
]);

/** Events of unknown types, with text and numbers that programming languages serialize differently. */
export const textAndNumberEvents = toAuditEvents([
  {
    type: "TextRecorded",
    data: {
      escapes: '"\\/\b\f\n\r\t',
      controls: "\u0000\u0001\u001f\u007f\u0080\u009f",
      separators: "\u2028\u2029\ufeff\u00a0",
      scripts: "Ünïcode, Ελληνικά, русский, עברית, 日本語, 🐾, 👩‍⚕️",
      decomposed: "e\u0301 is not \u00e9",
      noncharacters: "\ufffe\uffff\u{10ffff}",
      html: "<script>&amp;</script>",
      empty: "",
    },
  },
  {
    // RFC 8785 sorts by UTF-16 code units: U+1F43E, whose first unit is D83D, precedes U+FB33.
    type: "NamesRecorded",
    data: Object.fromEntries(
      ["\ufb33", "🐾", "\u20ac", "ö", "o", "O", "", "1", "10", "2", "\u0080", "\r", "__proto__", "toString"].map(
        (name, index) => [name, index],
      ),
    ),
  },
  {
    type: "NumbersRecorded",
    data: {
      integers: [0, -0, 1, -1, 10, 9007199254740991, -9007199254740992, 1e20, 1e21, 123456789012345680000],
      fractions: [0.1, 1.5, -0.25, 0.1 + 0.2, 1 / 3, 123.456, 333333333.3333332, 333333333.33333325],
      small: [1e-6, 1e-7, 0.0000012345, 1.2345e-7, 5e-324, 2.2250738585072014e-308, -5e-324],
      large: [1e22, 1e23, 295147905179352830000, 9.999999999999997e22, 1.7976931348623157e308, 9007199254740994],
    },
  },
]);

/** Events with data that is no JSON object, without metadata, and with secrets. */
export const unusualEvents = toAuditEvents([
  { type: "BytesRecorded", data: Buffer.from([0, 1, 254, 255]) },
  { type: "ListRecorded", data: [null, true, false, [], {}, [[1]], { b: 1, a: { d: 2, c: 3 } }] },
  { type: "TextRecorded", data: "only text" },
  { type: "NullRecorded", data: null },
  { type: "MetadataOmitted", data: { clinicId: CLINIC_ID.toUpperCase() }, metadata: {} },
  { type: "VersionRecorded", data: appointment, metadata: { ...metadata, schemaVersion: 99 } },
  { type: "SecretRecorded", data: { secretHash: "abc", nested: [{ encryptedSecret: { keyId: "k", text: "t" } }] } },
]);

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const ownClinic = { ...appointment, clinicId: CLINIC_ID };

/** Events with metadata that is unknown to this release or malformed. */
export const newerMetadataEvents = toAuditEvents([
  {
    type: "AppointmentConfirmed",
    data: appointment,
    metadata: {
      ...metadata,
      schemaVersion: 2.5,
      actor: { type: "robot", id: "r2", model: "🤖", note: "night shift" },
      reviewedBy: { id: "grace", encryptedValue: "abc" },
      traceparent,
      $tenant: null,
    },
  },
  {
    type: "AppointmentConfirmed",
    data: ownClinic,
    metadata: {
      ...metadata,
      $correlationId: 7,
      actor: "ada",
      clinicId: [CLINIC_ID],
      environment: "staging",
      schemaVersion: "1",
      occurredAt: "2026-05-04T10:00:00+02:00",
      ["__proto__"]: 1,
    },
  },
  { type: "AppointmentConfirmed", data: ownClinic, metadata: [1, "2"] },
  { type: "AppointmentConfirmed", data: ownClinic, metadata: "only text" },
  { type: "AppointmentConfirmed", data: ownClinic, metadata: Buffer.from([0, 255]) },
  { type: "AppointmentConfirmed", data: ownClinic, metadata: null },
]);

/** Creates 4,100 events. A manifest cannot list so many blocks of fewer lines, so each block has eight lines. */
export const createManyEvents = () =>
  toAuditEvents(Array.from({ length: 4_100 }, () => ({ type: "AppointmentConfirmed", data: appointment })));

/** Leaves of the Merkle tree in the test vectors. The service does not know the types of some events. */
export const treeEvents = toAuditEvents(
  [...historyEvents, ...textAndNumberEvents, ...unusualEvents].map(({ type, data }) => ({ type, data })),
);
