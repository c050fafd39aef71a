/**
 * The main job, step by step, against the stack that runs here: a partner creates an appointment, the portal sees
 * it, a signed webhook tells the partner, a failed delivery is replayed. Exits with 1 where a step does not hold.
 */

import { localPaths, localRoot } from "../setup/project.ts";
import { readStackFile } from "../stack/stack-file.ts";
import { runJourney } from "./journey.ts";
import { createNarrator, StepFailed } from "./narrator.ts";
import { startReceiver } from "./receiver.ts";

const narrator = createNarrator((line) => console.log(line));
try {
  const file = localPaths(localRoot(process.env)).stack;
  const stack = readStackFile(file);
  if (!stack)
    throw new Error(`No stack is running (${file} is missing). Run npm start in another terminal first.`);
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
