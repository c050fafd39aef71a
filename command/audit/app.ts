import type Koa from "koa";
import type { Registry } from "prom-client";
import type { z } from "zod";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { createApp, type RequestState } from "../../shared/http/app.ts";
import type { Readiness } from "../../shared/http/health.ts";
import { parseJsonBody } from "../../shared/http/request-body.ts";
import { createRouter } from "../../shared/http/router.ts";
import { limitAddressConcurrency } from "../../shared/rate-limit/middleware.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { accessesQuery, readAuditorName } from "./access/list-accesses.ts";
import { clinicStateQuery } from "./clinic/clinic-state.ts";
import { readersQuery } from "./clinic/list-readers.ts";
import type { AuditSigner } from "./export/signing.ts";
import { type AuditorState, requireAuditor } from "./http/auditor-access.ts";
import { sendAppointments, sendClinics, sendSearchResults } from "./http/names.ts";
import { sendConsistencyProof, sendInclusionProof, sendTreeHead } from "./http/proofs.ts";
import {
  type AuditDependencies,
  emptyQuerySchema,
  readQuery,
  recordNamedAccess,
  recordRequestAccess,
  serveQuery,
  streamExport,
} from "./http/queries.ts";
import { createPageRouter } from "./page/router.ts";
import type { AuditQuery } from "./queries/audit-query.ts";
import { deliveriesQuerySchema, describeDelivered, findDeliveries } from "./queries/find-deliveries.ts";
import { eventsQuery } from "./queries/list-events.ts";
import { replayQuery } from "./state/replay.ts";
import { diffQuery, stateQuery } from "./state/state-at.ts";

/** Queries of the HTTP API. The path of each query is its `action`. */
const QUERIES: AuditQuery<z.ZodType, object>[] = [
  ...[eventsQuery, stateQuery, diffQuery, replayQuery, accessesQuery, clinicStateQuery, readersQuery],
];

/**
 * Dependencies of the audit application. `log` does not decrypt personal data, so auditors can sign in while the data
 * keys are unavailable. The database role of `pool` can write only the audit index. It can read names, data keys,
 * webhook deliveries and attempts.
 */
interface AuditAppOptions extends AuditDependencies {
  logger: Logger;
  signer: AuditSigner;
  checkReadiness: Readiness;
  isProxyTrusted: boolean;
  registry?: Registry;
}

/** Creates the HTTP application with the auditors' queries, the public keys that verify exports, and the audit page. */
export function createAuditApp(options: AuditAppOptions): Koa<RequestState> {
  const { log, pool, signer } = options;
  const authorize = requireAuditor(log);
  const personalLog = createEventLog(options.client, { dataKeys: options.dataKeys });

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
    .get("audit.deliveries", "/deliveries", authorize, async (ctx) => {
      const query = readQuery(ctx.query, deliveriesQuerySchema);
      const deliveries = await findDeliveries(pool, query, ctx.state.auditor.clinicIds);
      const found = describeDelivered(query, deliveries);
      const names = await recordNamedAccess(options, ctx, "deliveries", { ...ctx.query }, deliveries, found);
      ctx.body = { ok: true, deliveries, names };
    })
    .get("audit.clinics", "/clinics", authorize, sendClinics(options))
    .get("audit.appointments", "/appointments", authorize, sendAppointments(options))
    .post("audit.search", "/search", authorize, parseJsonBody(), sendSearchResults(options))
    .get("audit.export", "/export", authorize, streamExport(options))
    .get("audit.tree-head", "/tree-head", authorize, sendTreeHead(options))
    .get("audit.inclusion-proof", "/inclusion-proof", authorize, sendInclusionProof(options))
    .get("audit.consistency-proof", "/consistency-proof", authorize, sendConsistencyProof(options));
  for (const query of QUERIES)
    queryRouter.get(`audit.${query.action}`, `/${query.action}`, authorize, serveQuery(query, options));
  const app = createApp({ ...options, retiredPaths: [] });
  app.use(keyRouter.routes());
  app.use(queryRouter.routes());
  app.use(createPageRouter().routes());
  return app;
}
