import type { EventStoreDBClient } from "@eventstore/db-client";
import type Koa from "koa";
import type pg from "pg";
import type { Registry } from "prom-client";
import { z } from "zod";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import { createApp, type RequestState } from "../../shared/http/app.ts";
import type { Readiness } from "../../shared/http/health.ts";
import { parseJsonBody } from "../../shared/http/request-body.ts";
import { createRouter } from "../../shared/http/router.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { limitAddressConcurrency } from "../../shared/rate-limit/concurrency.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { accessesQuery, readAuditorName } from "./access/list-accesses.ts";
import type { AuditSigner } from "./export/signing.ts";
import { readQuery, recordRequestAccess } from "./http/audited-query.ts";
import { type AuditorState, requireAuditor } from "./http/auditor-access.ts";
import { streamExport } from "./http/export.ts";
import { sendAppointments, sendClinics, sendNames, sendSearchResults } from "./http/names.ts";
import { streamConsistencyProof, streamInclusionProof } from "./http/proofs.ts";
import { sendQueryResult, streamQuery } from "./http/queries.ts";
import { createSlotLimiter, STATE_SLOT_LIMITS } from "./http/scan-slots.ts";
import { sendTreeHead } from "./http/tree-head.ts";
import { createPageRouter } from "./page/router.ts";
import { deliveriesQuerySchema, findDeliveries } from "./queries/find-deliveries.ts";
import { eventsQuery } from "./queries/list-events.ts";
import { latestQuery } from "./queries/list-latest.ts";
import { replayQuery } from "./state/replay.ts";
import { diffQuery, stateQuery } from "./state/state-at.ts";

interface AuditAppOptions {
  logger: Logger;
  log: EventLog;
  client: EventStoreDBClient;
  /** Keys of personal data. The log has none, so that auditors can sign in while the keys are unavailable. */
  dataKeys: DataKeys;
  /** Database pool. Its database role can only read names, webhook deliveries and attempts. */
  pool: pg.Pool;
  signer: AuditSigner;
  tilesDirectory?: string | undefined;
  checkReadiness: Readiness;
  isProxyTrusted: boolean;
  registry?: Registry;
  clock?: () => number;
}

/**
 * Schema of a query without parameters. The schema refuses unknown parameters, which would otherwise be recorded with
 * the access.
 */
const emptyQuerySchema = z.strictObject({});

/** Creates the HTTP application with the auditors' queries, the public keys that verify exports, and the audit page. */
export function createAuditApp(options: AuditAppOptions): Koa<RequestState> {
  const { log, pool, signer } = options;
  const authorize = requireAuditor(log);
  const personalLog = createEventLog(options.client, { dataKeys: options.dataKeys });
  const dependencies = {
    ...options,
    takeSlot: createSlotLimiter(),
    takeStateSlot: createSlotLimiter(STATE_SLOT_LIMITS),
  };

  const keyRouter = createRouter<RequestState>().get(
    "audit.jwks",
    "/audit/v1/jwks.json",
    limitAddressConcurrency(),
    (ctx) => {
      ctx.set("Cache-Control", "public, max-age=300");
      ctx.body = signer.jwks;
    },
  );

  const queryRouter = createRouter<AuditorState>("/audit/v1")
    .get("audit.me", "/me", authorize, async (ctx) => {
      const { id, clinicIds, expiresAt } = ctx.state.auditor;
      readQuery(ctx.query, emptyQuerySchema);
      await recordRequestAccess(log, ctx, "sign-in");
      const name = (await readAuditorName(personalLog, id)) ?? id;
      ctx.body = { ok: true, auditor: { id, name, clinicIds, expiresAt }, keyThumbprint: signer.thumbprint };
    })
    .get("audit.events", "/events", authorize, streamQuery(eventsQuery, dependencies))
    .get("audit.state", "/state", authorize, sendQueryResult(stateQuery, dependencies))
    .get("audit.diff", "/diff", authorize, sendQueryResult(diffQuery, dependencies))
    .get("audit.replay", "/replay", authorize, streamQuery(replayQuery, dependencies))
    .get("audit.deliveries", "/deliveries", authorize, async (ctx) => {
      const { stream } = readQuery(ctx.query, deliveriesQuerySchema);
      await recordRequestAccess(log, ctx, "deliveries");
      const deliveries = await findDeliveries(pool, stream, ctx.state.auditor.clinicIds);
      ctx.body = { ok: true, deliveries };
    })
    .get("audit.latest", "/latest", authorize, sendQueryResult(latestQuery, dependencies))
    .get("audit.accesses", "/accesses", authorize, streamQuery(accessesQuery, dependencies))
    .get("audit.clinics", "/clinics", authorize, sendClinics(dependencies))
    .get("audit.appointments", "/appointments", authorize, sendAppointments(dependencies))
    .get("audit.names", "/names", authorize, sendNames(dependencies))
    .post("audit.search", "/search", authorize, parseJsonBody(), sendSearchResults(dependencies))
    .get("audit.export", "/export", authorize, streamExport(dependencies))
    .get("audit.tree-head", "/tree-head", authorize, sendTreeHead(dependencies))
    .get("audit.inclusion-proof", "/inclusion-proof", authorize, streamInclusionProof(dependencies))
    .get("audit.consistency-proof", "/consistency-proof", authorize, streamConsistencyProof(dependencies));
  const app = createApp({ ...options, retiredPaths: [] });
  app.use(keyRouter.routes());
  app.use(queryRouter.routes());
  app.use(createPageRouter().routes());
  return app;
}
