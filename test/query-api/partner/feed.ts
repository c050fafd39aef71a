import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { confirmAppointment, requestAppointment } from "../../../command/operations/appointment-operations.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
} from "../../support/partner.ts";
import { type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { useResource } from "../../support/resources.ts";

interface FeedEvent {
  id: string;
  type: string;
  clinicId: string;
  branchId: string | null;
  environment: string;
  data: { appointment?: { id: string; revision: number; status: string }; [name: string]: unknown };
}

export interface FeedPage {
  events: FeedEvent[];
  cursor: string;
  hasMore: boolean;
}

/** Reads a list that partners poll for changes. The partner is new in each test. */
export interface Feed<Page> {
  api: PartnerApi;
  world: PartnerWorld;
  list(query?: string, partner?: PartnerWorld, url?: string): ReturnType<typeof sendRequest>;
  read(query?: string, partner?: PartnerWorld): Promise<Page>;
  /** Reads repeatedly until `isComplete` returns true for a page. */
  awaitPage(isComplete: (page: Page) => boolean, query?: string, partner?: PartnerWorld): Promise<Page>;
  /** Requests an appointment. @returns its id */
  request(clinic?: { clinicId: string; branchId: string }, details?: object): Promise<string>;
  confirm(appointmentId: string): Promise<unknown>;
}

/**
 * @param path path of the list, with the start of its query
 * @param isReady returns true if the read models contain the partner's installation
 * @param getHeaders default: headers of a partner at a clinic
 */
export function setUpFeed<Page>(
  path: string,
  isReady: (feed: Feed<Page>) => Promise<boolean>,
  getHeaders = ({ headers }: PartnerWorld): Record<string, string> => headers,
): Feed<Page> {
  const api = useResource(startPartnerApi);
  const world = useResource(() => createPartnerWorld(api.command), "test");
  const feed: Feed<Page> = {
    api,
    world,
    list: (query = "", partner = world, url = api.queryUrl) =>
      sendRequest("GET", `${url}/${partner.environment}/v1${path}${query}`, getHeaders(partner)),
    async read(query, partner) {
      const { status, body, text } = await feed.list(query, partner);
      expect(status, text).to.equal(200);
      return body;
    },
    awaitPage: (isComplete, query, partner) =>
      eventually("the page", async () => {
        const page = await feed.read(query, partner);
        return isComplete(page) && page;
      }),
    async request({ clinicId, branchId } = world, details) {
      const appointmentId = randomUUID();
      const time = { scheduledAt: "2099-05-04T10:00:00.000Z", durationMinutes: 30 };
      const defaults = { ...time, animalId: null, customerId: null, reason: null, notes: "not told" };
      const input = { appointmentId, clinicId, branchId, ...defaults, ...details };
      await requestAppointment(api.command.log, input as never, createTestOperatorContext());
      return appointmentId;
    },
    confirm: (appointmentId) =>
      confirmAppointment(api.command.log, { appointmentId, clinicId: world.clinicId }, createTestOperatorContext()),
  };
  beforeEach(() => eventually("the installation", () => isReady(feed)));
  return feed;
}

/** Returns the appointment ids in the events of a page. */
export const listAppointments = ({ events }: Pick<FeedPage, "events">) =>
  events.flatMap(({ data }) => data.appointment?.id ?? []);

/** Waits until the metrics of a query API show `count` waiting requests. */
export const awaitWaits = (url: string, count = 1) =>
  eventually("the waits", async () => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return text.includes(`\npartner_waiting_requests ${count}\n`);
  });

export const CHECKPOINT = `${READ_MODEL_SCHEMA}.checkpoint`;

/** Replaces the table of the checkpoint in a transaction, as a rebuild does. Only a rebuild ends quarantines. */
export const REBUILD_SQL = `LOCK ${CHECKPOINT};
  CREATE TABLE ${CHECKPOINT}_next (LIKE ${CHECKPOINT}); INSERT INTO ${CHECKPOINT}_next TABLE ${CHECKPOINT};
  GRANT SELECT ON ${CHECKPOINT}_next TO clinic_query, clinic_command;
  DROP TABLE ${CHECKPOINT}; ALTER TABLE ${CHECKPOINT}_next RENAME TO checkpoint`;
