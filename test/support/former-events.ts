/**
 * Stored events of former schema versions, with the exact bytes that existing logs contain. Never edit these events.
 */

const metadata =
  '{"$correlationId":"5f0c6f54-9a3f-4d59-8a54-6b0f4a1f6f01","$causationId":"5f0c6f54-9a3f-4d59-8a54-6b0f4a1f6f02","actor":{"type":"operator","id":"demo"},"clinicId":"11111111-1111-4111-8111-111111111111","environment":"production","schemaVersion":1,"occurredAt":"2026-03-01T08:00:00.000Z"}';

const requestedData = {
  appointmentId: "22222222-2222-4222-8222-222222222222",
  clinicId: "11111111-1111-4111-8111-111111111111",
  branchId: "33333333-3333-4333-8333-333333333333",
  animalId: null,
  customerId: null,
  scheduledAt: "2026-03-12T10:00:00.000Z",
  durationMinutes: 30,
  reason: "Check-up",
  notes: null,
  applicationId: null,
  requestHash: null,
};

const sandboxData = {
  ...requestedData,
  appointmentId: "77777777-7777-4777-8777-777777777777",
  clinicId: "66666666-6666-4666-8666-666666666666",
};

export interface FormerEvent {
  type: string;
  stream: string;
  version: number;
  /** Stored data, as JSON text. */
  data: string;
  metadata: string;
  /** The data after upcasting to the current version. */
  currentData: object;
}

const parkedStream = {
  stream: "customer-99999999-9999-4999-8999-999999999999",
  revision: 1,
  position: "4711",
  eventType: "CustomerDetailsChanged",
  cause: "cannot",
  reason: "Broken by an import",
};

export const formerEvents: readonly FormerEvent[] = [
  {
    type: "AppointmentRequested",
    stream: "appointment-22222222-2222-4222-8222-222222222222",
    version: 1,
    data: '{"appointmentId":"22222222-2222-4222-8222-222222222222","clinicId":"11111111-1111-4111-8111-111111111111","branchId":"33333333-3333-4333-8333-333333333333","animalId":null,"customerId":null,"scheduledAt":"2026-03-12T10:00:00.000Z","durationMinutes":30,"reason":"Check-up","notes":null,"applicationId":null,"requestHash":null}',
    metadata,
    currentData: { ...requestedData, sandboxGeneration: 0 },
  },
  {
    type: "AppointmentRequested",
    stream: "appointment-22222222-2222-4222-8222-22222222222a",
    version: 2,
    data: '{"appointmentId":"22222222-2222-4222-8222-22222222222a","clinicId":"11111111-1111-4111-8111-111111111111","branchId":"33333333-3333-4333-8333-333333333333","animalId":null,"customerId":null,"scheduledAt":"2026-03-12T10:00:00.000Z","durationMinutes":30,"reason":"Check-up","notes":"Limps","applicationId":null,"requestHash":"5d1c","sandboxGeneration":0}',
    metadata: metadata.replace('"schemaVersion":1', '"schemaVersion":2'),
    currentData: {
      ...requestedData,
      ...{ appointmentId: "22222222-2222-4222-8222-22222222222a", notes: "Limps", requestHash: "5d1c" },
      sandboxGeneration: 0,
    },
  },
  {
    type: "CustomerRegistered",
    stream: "customer-44444444-4444-4444-8444-444444444444",
    version: 1,
    data: '{"customerId":"44444444-4444-4444-8444-444444444444","clinicId":"11111111-1111-4111-8111-111111111111","fullName":"Ana Kos","phone":"+386 1 234 56 78","email":"ana@example.com","city":"Ljubljana"}',
    metadata,
    currentData: {
      customerId: "44444444-4444-4444-8444-444444444444",
      clinicId: "11111111-1111-4111-8111-111111111111",
      ...{ fullName: "Ana Kos", phone: "+386 1 234 56 78", email: "ana@example.com", city: "Ljubljana" },
    },
  },
  {
    type: "SandboxReset",
    stream: "sandbox-55555555-5555-4555-8555-555555555555",
    version: 1,
    data: '{"applicationId":"55555555-5555-4555-8555-555555555555","clinicId":"66666666-6666-4666-8666-666666666666","generation":1,"day":"2026-03-10","facts":[{"type":"ServiceWithdrawn","data":{"serviceId":"88888888-8888-4888-8888-888888888888"},"at":"2026-03-09T08:00:00.000Z"},{"type":"AppointmentRequested","data":{"appointmentId":"77777777-7777-4777-8777-777777777777","clinicId":"66666666-6666-4666-8666-666666666666","branchId":"33333333-3333-4333-8333-333333333333","animalId":null,"customerId":null,"scheduledAt":"2026-03-12T10:00:00.000Z","durationMinutes":30,"reason":"Check-up","notes":null,"applicationId":null,"requestHash":null},"at":"2026-03-09T08:00:00.000Z"}]}',
    metadata,
    currentData: {
      applicationId: "55555555-5555-4555-8555-555555555555",
      clinicId: "66666666-6666-4666-8666-666666666666",
      generation: 1,
      day: "2026-03-10",
      facts: [
        {
          type: "ServiceWithdrawn",
          data: { serviceId: "88888888-8888-4888-8888-888888888888" },
          at: "2026-03-09T08:00:00.000Z",
        },
        {
          type: "AppointmentRequested",
          data: { ...sandboxData, sandboxGeneration: 0 },
          at: "2026-03-09T08:00:00.000Z",
        },
      ],
    },
  },
  {
    type: "StreamParked",
    stream: "parking-streams",
    version: 1,
    data: '{"stream":"customer-99999999-9999-4999-8999-999999999999","revision":1,"position":"4711","eventType":"CustomerDetailsChanged","cause":"cannot","reason":"Broken by an import"}',
    metadata,
    currentData: { ...parkedStream, passedOverBy: "all" },
  },
  {
    type: "AuditAccessed",
    stream: "auditAccess-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
    version: 1,
    data: '{"accessId":"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa","auditorId":null,"action":"events","asked":{"clinic":"11111111-1111-4111-8111-111111111111"}}',
    metadata,
    currentData: {
      accessId: "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
      auditorId: null,
      action: "events",
      asked: { clinic: "11111111-1111-4111-8111-111111111111" },
      found: [],
      clinicIds: [],
    },
  },
];
