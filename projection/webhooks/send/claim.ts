import type pg from "pg";
import type { EncryptedHeader, WebhookBodyFormat } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { FormerSecret } from "../../read-models/webhook-secrets.ts";
import type { DeliveryRound } from "../record/outbox.ts";
import type { DueEndpoint, Lane } from "../schedule/due.ts";
import type { SlotGrant } from "../schedule/slots.ts";
import { CLAIM_SQL, CLAIM_WITH_PACE_SQL } from "./claim-sql.ts";

/** A leased delivery that this process may attempt once before the lease expires. The attempt is already recorded. */
export interface ClaimedDelivery extends DeliveryRound {
  lane: Lane;
  applicationId: string;
  body: string;
  bodyFormat: WebhookBodyFormat;
  url: string;
  /** Encrypted signing secrets: the current secret first, then former secrets that are still valid. */
  encryptedSecrets: string[];
  encryptedHeaders: EncryptedHeader[];
  hasAsymmetricSignature: boolean;
  /** Number of this attempt, counted from 1 across all rounds of the delivery. */
  attemptNumber: number;
  /** Milliseconds since 1970. */
  startedAt: number;
  /** Number of this attempt, counted from 1 in the current round. */
  attempts: number;
  /** Null if the order does not matter. */
  orderingKey: string | null;
}

interface ClaimedEndpoint {
  endpoint: DueEndpoint;
  isFailing: boolean;
  /** True if the claim filled all available slots of the endpoint, so that more deliveries may be due. */
  hasMore: boolean;
  isLimited: boolean;
  /** Time until the rate limit permits the next attempt. 0 if it permits one now. */
  pauseMs: number;
}

interface EndpointRow {
  ordinal: number;
  failing: boolean;
  /** Null if deliveries may not be sent to the endpoint. */
  capacity: number | null;
  isLimited: boolean;
  pauseMs: number;
}

interface DeliveryRow extends Omit<ClaimedDelivery, "lane" | "startedAt" | "encryptedSecrets" | "encryptedHeaders"> {
  encryptedSecret: string | null;
  formerSecrets: FormerSecret[] | null;
  encryptedHeaders: EncryptedHeader[] | null;
}

/** An endpoint without claimed deliveries has one row. */
type ClaimRow = EndpointRow & (DeliveryRow | { deliveryId: null });

interface Claim {
  deliveries: ClaimedDelivery[];
  endpoints: ClaimedEndpoint[];
}

/**
 * Claims and leases due deliveries, at most one for each granted slot. If no endpoint is known to have a rate limit, a
 * cheaper statement is used. It takes nothing from an endpoint with a rate limit, and only reports that it has one.
 *
 * @param excludedDeliveryIds ids of deliveries that this process still reserves, although their lease may have ended
 * @param lease owner and length of the lease. The length is longer than any attempt. If the sender is gone, nothing is
 *   claimed
 * @param now milliseconds since 1970
 */
export async function claimDueDeliveries(
  db: pg.Pool | pg.ClientBase,
  grants: readonly SlotGrant[],
  excludedDeliveryIds: readonly string[],
  { senderId, leaseMs }: { senderId: string; leaseMs: number },
  now: number,
): Promise<Claim> {
  const hasPace = grants.some(({ isLimited }) => isLimited);
  const values = [
    toInstant(now),
    toInstant(now + leaseMs),
    excludedDeliveryIds,
    grants.map(({ lane }) => lane),
    grants.map(({ endpointId }) => endpointId),
    grants.map(({ slotCount }) => slotCount),
    grants.map(({ occupiedSlots }) => occupiedSlots),
    senderId,
  ];
  const { rows } = await db.query<ClaimRow>(
    hasPace
      ? { name: "claim with pace", text: CLAIM_WITH_PACE_SQL, values: [...values, findRepeated(grants)] }
      : { name: "claim due deliveries", text: CLAIM_SQL, values },
  );
  return toClaim(rows, grants, now);
}

function toClaim(rows: readonly ClaimRow[], grants: readonly SlotGrant[], now: number): Claim {
  const deliveries: ClaimedDelivery[] = [];
  const countsByOrdinal = new Map<number, EndpointRow & { count: number }>();
  for (const row of rows) {
    const { ordinal, failing, capacity, isLimited, pauseMs, ...delivery } = row;
    const lane = grants[ordinal - 1]?.lane;
    const countBefore = countsByOrdinal.get(ordinal)?.count ?? 0;
    const hasDelivery = delivery.deliveryId !== null && lane !== undefined;
    if (hasDelivery) deliveries.push(toClaimedDelivery(delivery, lane, now));
    const count = countBefore + (hasDelivery ? 1 : 0);
    countsByOrdinal.set(ordinal, { ordinal, failing, capacity, isLimited, pauseMs, count });
  }
  const endpoints = grants.flatMap((endpoint, index): ClaimedEndpoint[] => {
    const row = countsByOrdinal.get(index + 1);
    if (!row) return [];
    const { failing: isFailing, isLimited, pauseMs } = row;
    return [{ endpoint, isFailing, isLimited, pauseMs, hasMore: row.capacity !== null && row.count >= row.capacity }];
  });
  return { deliveries, endpoints };
}

function findRepeated(grants: readonly SlotGrant[]): boolean[] {
  const endpointIds = new Set<string>();
  return grants.map(({ endpointId }) => {
    const isRepeated = endpointIds.has(endpointId);
    endpointIds.add(endpointId);
    return isRepeated;
  });
}

function toClaimedDelivery(row: DeliveryRow, lane: Lane, now: number): ClaimedDelivery {
  const { encryptedSecret: currentSecret, formerSecrets, encryptedHeaders, ...delivery } = row;
  const unexpiredSecrets = (formerSecrets ?? []).filter(({ expiresAt }) => Date.parse(expiresAt) > now);
  const secrets = [currentSecret, ...unexpiredSecrets.map(({ encryptedSecret }) => encryptedSecret)];
  const encryptedSecrets = secrets.filter((secret) => secret !== null);
  return { ...delivery, lane, startedAt: now, encryptedSecrets, encryptedHeaders: encryptedHeaders ?? [] };
}
