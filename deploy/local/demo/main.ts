/**
 * The main job, step by step, against the stack that runs here: a partner creates an appointment, the portal sees
 * it, a signed webhook tells the partner, a failed delivery is replayed. Exits with 1 where a step does not hold.
 */

import { runJourney } from "./journey.ts";
import { createNarrator, StepFailed } from "./narrator.ts";
import { startReceiver } from "./receiver.ts";
import { readStackFile } from "./stack-file.ts";

const narrator = createNarrator((line) => console.log(line));
try {
  const stack = await readStackFile();
  const receiver = await startReceiver();
  try {
    await runJourney(stack, receiver, narrator);
  } finally {
    await receiver.close();
  }
  console.log("\nEvery step held.");
} catch (error) {
  const what =
    error instanceof StepFailed ? `this step does not hold: ${error.message}` : (error as Error).message;
  console.error(`\nThe demo stopped: ${what}`);
  process.exitCode = 1;
}
