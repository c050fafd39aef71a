/**
 * Shows the main workflow against the running stack: a partner creates an appointment, the portal shows it, a signed
 * webhook reports it to the partner, and a failed delivery is replayed. Exits with 1 if a check fails.
 */

import { getLocalPaths, getLocalRoot } from "../setup/project.ts";
import { readStackFile } from "../stack/stack-file.ts";
import { runJourney } from "./journey.ts";
import { createNarrator, StepFailedError } from "./narrator.ts";
import { startReceiver } from "./receiver.ts";

const narrator = createNarrator((line) => console.log(line));
try {
  const file = getLocalPaths(getLocalRoot(process.env)).stack;
  const stack = readStackFile(file);
  if (!stack) throw new Error(`No stack is running (${file} is missing). Run npm start in another terminal first.`);
  const receiver = await startReceiver();
  try {
    await runJourney(stack, receiver, narrator);
  } finally {
    await receiver.close();
  }
  console.log("\nAll checks passed.");
} catch (error) {
  const reason = error instanceof StepFailedError ? `this check failed: ${error.message}` : (error as Error).message;
  console.error(`\nThe demo stopped: ${reason}`);
  process.exitCode = 1;
}
