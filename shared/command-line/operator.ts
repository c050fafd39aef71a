import { X509Certificate } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import { z } from "zod";
import type { Actor } from "../domain/events/metadata.ts";
import { readConfig } from "../runtime/config.ts";
import { InputError } from "./failure.ts";
import { option } from "./option.ts";

/** Option with the name of the operator. {@link requireOperator} checks the name. */
export const actorOption = option.text(
  z.string().optional(),
  "your name, recorded in the event log; a note if the event log knows you; default: your user name",
  "name",
);

/**
 * Returns the operator who runs a command. If the event log authenticates a user, this user is the actor, and the given
 * name is only a note. Otherwise, the given name is the actor, and nothing verifies it.
 *
 * @param name value of `--actor`; default: the name of this process's user
 * @throws {InputError} if the name is empty or longer than 200 characters, or if it is missing and no user is
 *   authenticated
 * @throws {ConfigError} if EVENTSTORE_URL is missing or invalid
 */
export function requireOperator(env: NodeJS.ProcessEnv, name = findUserName()): Actor {
  const user = findLogUser(readConfig(["EVENTSTORE_URL"], env).EVENTSTORE_URL);
  if (name !== undefined && (name.length < 1 || name.length > 200))
    throw new InputError("--actor must have 1 to 200 characters");
  if (user !== undefined) {
    return { type: "operator", id: user, ...(name !== undefined && name !== user && { note: name }) };
  }
  if (name === undefined) throw new InputError("--actor is required, because the user of this process has no name");
  return { type: "operator", id: name };
}

/** Returns the name of this process's user; undefined if the user has only a number, as in a container. */
function findUserName(): string | undefined {
  try {
    return os.userInfo().username;
  } catch {
    return undefined;
  }
}

/**
 * Returns the user with whom the EventStoreDB client logs in: the user of the connection string, or else the common
 * name of the user certificate. Returns undefined if there is neither, or if TLS is off, because the client then does
 * not log in.
 */
function findLogUser(url: string): string | undefined {
  const query = [...new URLSearchParams(url.split("?")[1])];
  const options = new Map(query.map(([name, value]) => [name.toLowerCase(), value]));
  if (options.get("tls")?.toLowerCase() === "false") return undefined;
  const [, encodedUser] = /^[^/]+:\/\/([^:@/?]+):[^@/?]+@/.exec(url) ?? [];
  if (encodedUser !== undefined) return decodeURIComponent(encodedUser);
  const certificateFile = options.get("usercertfile");
  if (certificateFile === undefined || !fs.existsSync(certificateFile)) return undefined;
  const { subject } = new X509Certificate(fs.readFileSync(certificateFile)).toLegacyObject();
  return [subject.CN].flat()[0];
}
