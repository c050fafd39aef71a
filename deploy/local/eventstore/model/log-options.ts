import { FULL_SEGMENT_BYTES, LOG_LIMITS, type LogLimits } from "./limits.ts";

export interface LogOptions {
  /** Limits of the whole log. Tests use small limits. */
  readonly limits: LogLimits;
  /** Size in bytes at which a segment is full and the next segment starts. Tests use a small size. */
  readonly segmentBytes: number;
  /** If true, each append is flushed to disk before it is acknowledged. Only benchmarks disable this. */
  readonly shouldSync: boolean;
  /** Prints a line for the operator. A line may contain internal error details that clients do not see. */
  readonly printLine: (line: string) => void;
}

export const DEFAULT_LOG_OPTIONS: LogOptions = {
  limits: LOG_LIMITS,
  segmentBytes: FULL_SEGMENT_BYTES,
  shouldSync: true,
  printLine: () => undefined,
};
