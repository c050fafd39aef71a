import { type EventStoreDBClient, eventTypeFilter, type Filter } from "@eventstore/db-client";
import type pg from "pg";
import { type AnimalConsentEvent, animalConsentStreams } from "../../../shared/domain/events/consent.ts";
import {
  type InstallationEvent,
  installationStreams,
  type PartnerApplicationEvent,
  partnerApplicationStreams,
  type WebhookEndpointEvent,
  webhookEndpointStreams,
} from "../../../shared/domain/events/partner.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import { isLogAvailable } from "../../../shared/eventstore/stream-failure.ts";
import {
  createCategoryFilter,
  type SubscriptionItem,
  subscribeToLog,
} from "../../../shared/eventstore/subscription.ts";
import { readPosition as readModelPosition } from "../../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { runTaskGroup, waitUnlessAborted } from "../../../shared/runtime/abort.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { type Loop, repeat } from "../../../shared/runtime/work.ts";

/** Categories of the streams whose events can revoke the permission to send deliveries. */
const revokingCategories = [
  partnerApplicationStreams,
  installationStreams,
  webhookEndpointStreams,
  animalConsentStreams,
];

type RevokingEvent = PartnerApplicationEvent | InstallationEvent | WebhookEndpointEvent | AnimalConsentEvent;

/**
 * True for each event type of the revoking categories that can revoke a permission. Unknown types count as revocations.
 */
const canRevoke: Record<RevokingEvent["type"], boolean> = {
  ApplicationRegistered: false,
  CredentialIssued: false,
  CredentialRevoked: false,
  WebhookOriginApproved: false,
  WebhookOriginWithdrawn: true,
  ApplicationRevoked: true,
  InstallationRequested: false,
  InstallationApproved: true,
  InstallationNarrowed: true,
  InstallationRateLimitAgreed: false,
  InstallationRevoked: true,
  WebhookEndpointRegistered: false,
  WebhookSecretRotated: true,
  WebhookEndpointChanged: true,
  WebhookEndpointDisabled: true,
  WebhookEndpointEnabled: false,
  WebhookEndpointRevoked: true,
  WebhookEndpointTested: false,
  WebhookEndpointFailureReported: false,
  WebhookSecretExpiryReported: false,
  WebhookEndpointSummarized: false,
  AnimalLinkCodeCreated: false,
  AnimalLinked: false,
  AnimalLinkWithdrawn: true,
  AnimalConsentSummarized: false,
};

/** Types of erasures, which also revoke permissions, because they end the links to the customer's animals. */
const ERASURE_TYPES = ["CustomerDataErased"];

/**
 * SQL condition that is true if the read models include the last recorded revocation. Each process of the role records
 * the revocations that it reads in the log.
 */
export const READ_MODELS_CURRENT_SQL = `
  COALESCE((SELECT position FROM webhooks.revocation), ${BEFORE_FIRST_EVENT})
    <= (SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint)`;

interface RevocationDeps {
  client: EventStoreDBClient;
  pool: pg.Pool;
  log: Pick<EventLog, "readLast">;
  logger: Logger;
}

/**
 * Time without an event, after which the process tests the log. If the log is unavailable, the process may claim
 * deliveries, although it may not have read all events.
 */
const SILENCE_TIMEOUT_MS = 5_000;

const RECORD_INTERVAL_MS = 1_000;

/**
 * Follows the revocations in the log until the signal aborts, so that no attempt starts after a revocation that the
 * read models lack. If the log does not answer, the last known revocation counts. The position of the last revocation
 * is also recorded in the database, for processes that start while the log does not answer.
 */
export class RevocationWatch {
  readonly #deps: RevocationDeps;
  #isFollowing = false;
  /** Position of the last revocation that this process has read. */
  #position = BEFORE_FIRST_EVENT;
  #readModelPosition: bigint | undefined;

  constructor(deps: RevocationDeps) {
    this.#deps = deps;
  }

  /** False while the read models or this process may lack revocations, so that the process must claim no deliveries. */
  get isCurrent(): boolean {
    if (!this.#isFollowing) return false;
    return this.#position === BEFORE_FIRST_EVENT || this.#position <= (this.#readModelPosition ?? BEFORE_FIRST_EVENT);
  }

  /** @param position position of the read models; undefined while changes are not reported */
  setReadModelPosition(position: bigint | undefined): void {
    this.#readModelPosition = position;
  }

  async run(loop: Loop): Promise<void> {
    const { signal } = loop;
    const follow = () =>
      this.#follow(signal).finally(async () => {
        if (!signal.aborted) this.#isFollowing = !(await isLogAvailable(this.#deps.log));
      });
    await repeat(loop, follow, async () => undefined);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { client, pool, log } = this.#deps;
    const readPosition = await readModelPosition(pool);
    const after = readPosition === BEFORE_FIRST_EVENT ? undefined : readPosition;
    this.#isFollowing = false;
    // A subscription that falls behind catches up more than once.
    const caughtUpFilters = new Set<Filter>();
    let itemAt = performance.now();
    const watchSilence = async (groupSignal: AbortSignal) => {
      while (!groupSignal.aborted) {
        await pause(RECORD_INTERVAL_MS, groupSignal);
        void this.#record();
        // The log also sends nothing while it searches a long range without such events.
        const isSilent = !this.#isFollowing && performance.now() - itemAt > SILENCE_TIMEOUT_MS;
        if (isSilent && (await waitUnlessAborted(isLogAvailable(log), groupSignal)) === false) this.#isFollowing = true;
      }
    };
    const follow = (filter: Filter) => async (groupSignal: AbortSignal) => {
      for await (const item of subscribeToLog({ client, after, filter, signal: groupSignal })) {
        itemAt = performance.now();
        if (item.kind === "caughtUp") caughtUpFilters.add(filter);
        else if (mayRevoke(item) && item.position > this.#position) {
          this.#position = item.position;
          await this.#record();
        }
        if (caughtUpFilters.size === 2) this.#isFollowing = true;
      }
      if (!groupSignal.aborted) throw new Error("The event log ended the subscription.");
    };
    await runTaskGroup(signal, [
      follow(createCategoryFilter(revokingCategories)),
      follow(eventTypeFilter({ prefixes: ERASURE_TYPES })),
      watchSilence,
    ]);
  }

  /**
   * Records the position of the last revocation repeatedly, because a failover can lose the record. Only other
   * processes need the record.
   */
  async #record(): Promise<void> {
    if (this.#position === BEFORE_FIRST_EVENT) return;
    await recordRevocation(this.#deps.pool, this.#position).catch((error: unknown) =>
      this.#deps.logger.warn({ error }, "A revocation cannot be recorded. This will be retried."),
    );
  }
}

function mayRevoke(item: SubscriptionItem): item is SubscriptionItem & { position: bigint } {
  if (item.kind === "unreadable") return true;
  if (item.kind !== "event") return false;
  const { type } = item.event;
  return !Object.hasOwn(canRevoke, type) || canRevoke[type as keyof typeof canRevoke];
}

async function recordRevocation(pool: pg.Pool, position: bigint): Promise<void> {
  await pool.query({
    name: "record revocation",
    text: `INSERT INTO webhooks.revocation AS r (position) VALUES ($1)
           ON CONFLICT (only_row) DO UPDATE SET position = $1 WHERE r.position < $1`,
    values: [position],
  });
}
