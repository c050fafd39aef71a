import type { EventStoreDBClient } from "@eventstore/db-client";
import type Koa from "koa";
import type pg from "pg";
import { z } from "zod";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { createApp, type RequestState } from "../../shared/http/app.ts";
import type { Readiness } from "../../shared/http/health.ts";
import { createRouter } from "../../shared/http/router.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { ExportSigner } from "./export/signing.ts";
import { questionOf, recordedAccess } from "./http/audited-query.ts";
import { type AuditorState, auditorAccess } from "./http/auditor-access.ts";
import { answerEvents } from "./http/events.ts";
import { answerExport } from "./http/export.ts";
import { createScanSlots, MOST_STATES } from "./http/scan-slots.ts";
import { answerDiff, answerReplay, answerState } from "./http/states.ts";
import { createPageRouter } from "./page/router.ts";
import { deliveriesQuestion, findDeliveries } from "./queries/find-deliveries.ts";

export interface AuditAppOptions {
  logger: Logger;
  log: EventLog;
  client: EventStoreDBClient;
  /** With the role that may read deliveries and attempts, and nothing else. */
  pool: pg.Pool;
  signer: ExportSigner;
  readiness: Readiness;
  trustProxy: boolean;
  clock?: () => number;
}

/** What is not asked for is not recorded either. */
const noQuestion = z.strictObject({});

/** The whole application: what auditors may ask, the keys that verify exports, and the page. */
export function createAuditApp(options: AuditAppOptions): Koa<RequestState> {
  const { log, pool, signer } = options;
  const admit = auditorAccess(log);
  const using = {
    ...options,
    takeSlot: createScanSlots(),
    takeStateSlot: createScanSlots(MOST_STATES),
  };

  const keys = createRouter<RequestState>().get("/audit/v1/jwks.json", (ctx) => {
    ctx.set("Cache-Control", "public, max-age=300");
    ctx.body = signer.jwks;
  });

  const asked = createRouter<AuditorState>("/audit/v1")
    .all("/me", admit, async (ctx) => {
      const { id, name, clinicIds, expiresAt } = ctx.state.auditor;
      questionOf(ctx.query, noQuestion);
      await recordedAccess(log, ctx, "sign-in");
      ctx.body = { ok: true, auditor: { id, name, clinicIds, expiresAt } };
    })
    .all("/events", admit, answerEvents(using))
    .all("/state", admit, answerState(using))
    .all("/diff", admit, answerDiff(using))
    .all("/replay", admit, answerReplay(using))
    .all("/deliveries", admit, async (ctx) => {
      const { stream } = questionOf(ctx.query, deliveriesQuestion);
      await recordedAccess(log, ctx, "deliveries");
      const deliveries = await findDeliveries(pool, stream, ctx.state.auditor.clinicIds);
      ctx.body = { ok: true, deliveries };
    })
    .all("/export", admit, answerExport(using));

  const app = createApp({ ...options, retiredPaths: [] });
  app.use(keys.routes());
  app.use(asked.routes());
  app.use(createPageRouter().routes());
  return app;
}
