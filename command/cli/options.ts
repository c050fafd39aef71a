import { z } from "zod";
import { option } from "../../shared/command-line/option.ts";

export const clinic = option.id("the clinic");

const MAX_LOG_WAIT_S = 86_400;
const LOG_WAIT_RULE = `must be a whole number of seconds from 0 to ${MAX_LOG_WAIT_S}`;

/** Creates the option for the maximum time, in seconds, that a command waits for an unavailable event log. */
export const createLogWaitOption = (defaultSeconds: number) =>
  option.number(
    z
      .number(LOG_WAIT_RULE)
      .int(LOG_WAIT_RULE)
      .min(0, LOG_WAIT_RULE)
      .max(MAX_LOG_WAIT_S, LOG_WAIT_RULE)
      .default(defaultSeconds),
    `how many seconds to wait for an unavailable event log; default: ${defaultSeconds}`,
  );
