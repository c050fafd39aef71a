/**
 * Streams.BatchAppend: one long call on which a client sends all its appends. An append has a correlation id and one or
 * more parts. The log sends one response per correlation id.
 */
import type { BatchAppendReq, BatchAppendResp } from "@eventstore/db-client/generated/streams_pb.js";
import { type ServerDuplexStream, status } from "@grpc/grpc-js";
import { MAX_MESSAGES_AHEAD, MAX_UNFINISHED_APPENDS } from "../model/limits.ts";
import { shared } from "../model/pb.ts";
import type { ProposedEvent } from "../model/record.ts";
import type { NotWritten } from "../store/group-commit.ts";
import type { WriteResult } from "../store/staged-group.ts";
import type { Store } from "../store/store.ts";
import { type AnswerContext, answerRefusal, answerResult, answerTimeout } from "./batch-answer.ts";
import { CallError, invalidArgument, logFull, toCallError, unavailable } from "./errors.ts";
import {
  AppendSize,
  checkMetadata,
  expectedRevision,
  proposedEvent,
  uuidText,
  writableStreamName,
} from "./request-parts.ts";

export type BatchAppendCall = ServerDuplexStream<BatchAppendReq, BatchAppendResp>;

/** An append whose last part has not arrived yet. */
interface PartialAppend {
  readonly to: AnswerContext;
  readonly stream: string;
  readonly deadline: number;
  readonly events: ProposedEvent[];
  readonly size: AppendSize;
}

/** Maximum delay of setTimeout. Later deadlines have no timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Serves one BatchAppend call until it ends. */
export function serveBatchAppend(store: Store, call: BatchAppendCall, log: (line: string) => void): void {
  new BatchAppendSession(store, call, log).start();
}

class BatchAppendSession {
  readonly #store: Store;
  readonly #call: BatchAppendCall;
  readonly #log: (line: string) => void;
  readonly #unfinished = new Map<string, PartialAppend>();
  #awaited = 0;
  #halfClosed = false;

  constructor(store: Store, call: BatchAppendCall, log: (line: string) => void) {
    this.#store = store;
    this.#call = call;
    this.#log = log;
  }

  start(): void {
    this.#call.on("data", (request: BatchAppendReq) => this.#receive(request));
    this.#call.on("drain", () => this.#call.resume());
    this.#call.on("end", () => {
      this.#halfClosed = true;
      this.#endWhenAnswered();
    });
  }

  #receive(request: BatchAppendReq): void {
    try {
      this.#take(request);
    } catch (error) {
      this.#fail(error);
    }
  }

  #take(request: BatchAppendReq): void {
    const correlation = uuidText(request.getCorrelationId(), "A correlation id");
    if (request.hasOptions()) this.#begin(correlation, request);
    const append = this.#unfinished.get(correlation);
    // This is a later part of an append that was already refused.
    if (append === undefined) return;
    try {
      collect(append, request);
    } catch (error) {
      this.#unfinished.delete(correlation);
      this.#refuse(append.to, error);
      return;
    }
    if (!request.getIsFinal()) return;
    this.#unfinished.delete(correlation);
    void this.#submit(append);
  }

  #begin(correlation: string, request: BatchAppendReq): void {
    if (this.#unfinished.has(correlation))
      throw invalidArgument("Two unfinished appends have the same correlation id.");
    if (this.#unfinished.size >= MAX_UNFINISHED_APPENDS) {
      throw new CallError(
        status.RESOURCE_EXHAUSTED,
        `A call can have at most ${MAX_UNFINISHED_APPENDS} unfinished appends.`,
      );
    }
    const options = request.getOptions();
    const to: AnswerContext = {
      correlationId: request.getCorrelationId() ?? new shared.UUID(),
      identifier: options?.getStreamIdentifier() ?? new shared.StreamIdentifier(),
      expected: options === undefined ? 0 : expectedRevision(options, exactRevision(options)),
    };
    try {
      const stream = writableStreamName(options?.getStreamIdentifier());
      const deadline = options?.getDeadline()?.toDate().getTime() ?? Number.POSITIVE_INFINITY;
      this.#unfinished.set(correlation, { to, stream, deadline, events: [], size: new AppendSize() });
    } catch (error) {
      this.#refuse(to, error);
    }
  }

  #refuse(to: AnswerContext, error: unknown): void {
    this.#write(answerRefusal(to, toCallError(error, this.#log)));
  }

  async #submit(append: PartialAppend): Promise<void> {
    const { stream, events, to } = append;
    const write = { kind: "append", stream, expected: to.expected, events } as const;
    this.#awaited += 1;
    try {
      const written = this.#store.submit(write, append.size.stored, append.deadline);
      const result = await beforeDeadline(written, append.deadline);
      // During a shutdown, the error that ends the call applies to this append.
      if (result.outcome === "closing") return;
      this.#write(this.#answer(to, result));
    } catch {
      // The disk failed. The server logs the cause once for all queued appends.
      this.#fail(unavailable("The log cannot write to its disk."));
    } finally {
      this.#awaited -= 1;
      this.#endWhenAnswered();
    }
  }

  #answer(to: AnswerContext, result: WriteResult | NotWritten): BatchAppendResp {
    switch (result.outcome) {
      case "written":
      case "wrong-revision":
      case "deleted":
        return answerResult(to, result);
      case "log-full":
        return answerRefusal(to, logFull());
      case "damaged":
        return answerRefusal(to, toCallError(result.reason, this.#log));
      default:
        return answerTimeout(to);
    }
  }

  #write(response: BatchAppendResp): void {
    if (this.#call.cancelled || this.#call.writableEnded) return;
    this.#call.write(response);
    // A client that does not read its responses must not send more requests.
    if (this.#call.writableLength > MAX_MESSAGES_AHEAD) this.#call.pause();
  }

  #fail(error: unknown): void {
    if (this.#call.writableEnded) return;
    this.#unfinished.clear();
    this.#call.emit("error", toCallError(error, this.#log));
  }

  #endWhenAnswered(): void {
    if (this.#halfClosed && this.#awaited === 0 && !this.#call.writableEnded) this.#call.end();
  }
}

function exactRevision(options: BatchAppendReq.Options): string | undefined {
  return options.hasStreamPosition() ? options.getStreamPosition() : undefined;
}

function collect(append: PartialAppend, request: BatchAppendReq): void {
  const events = request.getProposedMessagesList().map(proposedEvent);
  for (const event of events) append.size.add(append.stream, event);
  checkMetadata(append.stream, events);
  append.events.push(...events);
}

/** Returns the result, or "expired" if the deadline passes first. The write can still happen later. */
function beforeDeadline<T>(result: Promise<T>, deadline: number): Promise<T | NotWritten> {
  const wait = deadline - Date.now();
  if (wait > MAX_TIMER_MS) return result;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve({ outcome: "expired" }), Math.max(0, wait));
    result.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
