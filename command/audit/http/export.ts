import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { load } from "../../handling/handle.ts";
import { exportClinic, exportQuery } from "../export/export-clinic.ts";
import type { ExportSigner } from "../export/signing.ts";
import { type AuditContext, readQuery, recordRequestAccess } from "./audited-query.ts";
import type { AuditDependencies } from "./events.ts";
import { withSlot } from "./scan-slots.ts";

/** GET /audit/v1/export: a clinic's events in a time range, followed by the signed manifest. */
export function streamExport(
  dependencies: AuditDependencies & { signer: ExportSigner },
): (ctx: AuditContext) => Promise<void> {
  const { log, client, takeSlot, signer } = dependencies;
  return async (ctx) => {
    const query = readQuery(ctx.query, exportQuery);
    const { auditor, now } = ctx.state;
    for (const end of ["from", "to"] as const) {
      const at = query[end];
      if (at !== undefined && Date.parse(at) > now) throw inFuture(end);
    }
    await withSlot(ctx, takeSlot, async (signal) => {
      const accessId = await recordRequestAccess(log, ctx, "export");
      await requireOwn(log, auditor, query.clinic);
      const by = { type: "auditor", id: auditor.id };
      const made = { by, accessId, now: toInstant(now) };
      const lines = await exportClinic(query, { client, signal, signer, ...made });
      ctx.attachment(`audit-${query.clinic}.ndjson`);
      return { lines };
    });
  };
}

/** A range in the future may still get events, so its content cannot be proven. */
function inFuture(path: "from" | "to"): ApiError {
  return new ApiError(400, "invalid_query", {
    details: [{ path, message: "must not be in the future" }],
  });
}

/** A clinic outside the auditor's limit is refused as if it did not exist. */
async function requireOwn(log: EventLog, { clinicIds }: Auditor, clinicId: string): Promise<void> {
  const { state } = await load(log, clinicAggregate, clinicId);
  if (!state || (clinicIds && !clinicIds.includes(clinicId))) throw new ApiError(404, "clinic_not_found");
}
