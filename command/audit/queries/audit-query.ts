import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import type { IndexedLog } from "../index/read-rows.ts";

/** Sources that a query reads, and the scope of the reader. */
export interface ReadOptions extends IndexedLog {
  dataKeys: DataKeys;
  /**
   * Ids of the clinics in the reader's scope; null for all clinics. Operators get null, because they can read the whole
   * event log anyway.
   */
  permittedClinicIds: readonly string[] | null;
  /** If the signal aborts, a list ends without an error. */
  signal?: AbortSignal;
}

/** A query of the event log, shared by the HTTP API and the command line. */
export interface AuditQuery<Schema extends z.ZodType = z.ZodType, Result = unknown> {
  /** Name of the query in the recorded access, and its path in the HTTP API. */
  action: AuditAction;
  schema: Schema;
  /**
   * Runs the query. The caller must record the access before it returns any data.
   *
   * @throws {StreamNotFoundError}
   * @throws {DifferentLogError}
   * @throws {IndexBehindError}
   * @throws {LogUnavailableError} if the event log cannot be read
   */
  run(query: z.output<Schema>, options: ReadOptions): Promise<Result>;
}

/**
 * A list whose items are read while the caller iterates. The return value of the generator describes the end of the
 * list.
 */
export type ItemStream<Item> = AsyncGenerator<Item, ListEnd, void>;

/** End of a list: members of the `end` object in the last line of a response. */
interface ListEnd {
  /** Value of the parameter `after` for the next page; null if the list is complete. */
  next?: string | null;
  /** Log position of the last event when the query started. The list contains no later events. */
  through?: string;
}

/** The stream does not exist, or the reader may see none of its events. */
export class StreamNotFoundError extends Error {
  override readonly name = "StreamNotFoundError";

  constructor(stream: string) {
    super(`stream ${stream} does not exist`);
  }
}

/**
 * Yields items up to the limit. If the limit is reached, `next` is the position of the last item, even if no items
 * follow.
 *
 * @param limit maximum number of items; undefined for all items
 */
export async function* limitItems<Item extends { position: string }>(
  items: AsyncIterable<Item>,
  limit: number | undefined,
  end: ListEnd = {},
): ItemStream<Item> {
  let count = 0;
  for await (const item of items) {
    yield item;
    count += 1;
    if (count === limit) return { next: item.position, ...end };
  }
  return { next: null, ...end };
}
