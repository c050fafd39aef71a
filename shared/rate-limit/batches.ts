/** Requests of one key that may wait for their count. Further ones are refused at once. */
const MOST_WAITING = 2_000;

/** More requests of a key wait for their count than may wait. */
export class TooManyWaiting extends Error {
  override readonly name = "TooManyWaiting";
}

interface Waiting<Outcome> {
  resolve: (outcome: Outcome) => void;
  reject: (error: unknown) => void;
}

/**
 * Sends the requests of a key in batches: one batch of a key is under way at a time, and those that arrive meanwhile
 * make up the next one. A slow key delays no other key.
 *
 * @returns adds one request of a key. `send` takes the number of requests and returns one outcome for each, in order; the
 *   same for all requests of a key. Throws what `send` throws, and {@link TooManyWaiting}
 */
export function createBatches<Outcome>(): (
  key: string,
  send: (requests: number) => Promise<Outcome[]>,
) => Promise<Outcome> {
  const next = new Map<string, Waiting<Outcome>[]>();

  async function sendAll(
    key: string,
    send: (requests: number) => Promise<Outcome[]>,
    first: Waiting<Outcome>,
  ): Promise<void> {
    for (let batch = [first]; batch.length > 0; batch = next.get(key) ?? []) {
      next.set(key, []);
      try {
        const outcomes = await send(batch.length);
        for (const [index, { resolve }] of batch.entries()) resolve(outcomes[index] as Outcome);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    next.delete(key);
  }

  return (key, send) =>
    new Promise((resolve, reject) => {
      const waiting = next.get(key);
      if (!waiting) void sendAll(key, send, { resolve, reject });
      else if (waiting.length < MOST_WAITING) waiting.push({ resolve, reject });
      else reject(new TooManyWaiting(`${MOST_WAITING} requests of one key wait for their count`));
    });
}
