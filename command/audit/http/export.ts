import type { EventStoreDBClient } from "@eventstore/db-client";
import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { clinicStreams } from "../../../shared/domain/events/clinic.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { exportClinic, exportQuerySchema, findFutureParameter } from "../export/export-clinic.ts";
import type { AuditSigner } from "../export/signing.ts";
import { readFirstEvent } from "../log/read-stream.ts";
import { type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import { type AuditDependencies, throwApiError } from "./queries.ts";
import { streamLines } from "./stream-lines.ts";

/** GET /audit/v1/export: a clinic's events in a time range, followed by the signed manifest. */
export function streamExport(dependencies: AuditDependencies & { signer: AuditSigner }): AuditHandler {
  const { log, client, index, signer } = dependencies;
  return async (ctx) => {
    const query = readQuery(ctx.query, exportQuerySchema);
    const { auditor, now } = ctx.state;
    const futureParameter = findFutureParameter(query, now);
    if (futureParameter) {
      const details = [{ path: futureParameter, message: "must not be in the future" }];
      throw new ApiError(400, "invalid_query", { details });
    }
    const accessId = await recordRequestAccess(log, ctx, "export");
    await requirePermittedClinic(client, auditor, query.clinic);
    const exportedBy = { type: "auditor", id: auditor.id };
    const exportContext = { client, index, signer, exportedBy, accessId, now: toInstant(now) };
    await streamLines(ctx, (signal) => exportClinic(query, { ...exportContext, signal }).catch(throwApiError));
    ctx.attachment(`audit-${query.clinic}.ndjson`);
  };
}

/** Throws the same 404 error whether the clinic does not exist or the auditor may not see it. */
async function requirePermittedClinic(
  client: EventStoreDBClient,
  { clinicIds }: Auditor,
  clinicId: string,
): Promise<void> {
  const firstEvent = await readFirstEvent(client, toStreamName(clinicStreams, clinicId));
  if (!firstEvent || (clinicIds && !clinicIds.includes(clinicId))) throw new ApiError(404, "clinic_not_found");
}
