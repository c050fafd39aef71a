import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { LruMap } from "../../shared/runtime/lru.ts";

/** Maximum number of remembered ids. An id takes about 300 bytes. */
const MAX_REMEMBERED_IDS = 5_000;

const rememberedIds = new LruMap<string, string>(MAX_REMEMBERED_IDS);

/**
 * Returns the id that {@link deriveInstallationId} derives. Each request needs the id, and deriving it takes about as
 * long as all other steps of the access check.
 */
export function getInstallationId(applicationId: string, clinicId: string): string {
  const key = `${applicationId} ${clinicId}`;
  const rememberedId = rememberedIds.get(key);
  if (rememberedId !== undefined) return rememberedId;
  const id = deriveInstallationId(applicationId, clinicId);
  rememberedIds.set(key, id);
  return id;
}
