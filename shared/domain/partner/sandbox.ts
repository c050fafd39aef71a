import { type Animal, registeredAnimal } from "../clinic/animal.ts";
import type { SandboxEvent } from "../events/sandbox.ts";
import type { Instant } from "../time/rfc3339.ts";

/** An application's sandbox since its last reset. */
export type Sandbox = SandboxEvent["data"] & {
  resetAt: Instant;
  /** Of the reset in its stream and in the log. */
  revision: bigint;
  position: bigint;
};

/** An animal of the sandbox's current fixture. */
export function fixtureAnimal({ facts }: Sandbox, animalId: string): Animal | undefined {
  const registered = facts.find(
    (fact) => fact.type === "AnimalRegistered" && fact.data.animalId === animalId,
  );
  return registered?.type === "AnimalRegistered" ? registeredAnimal(registered.data) : undefined;
}
