/**
 * Sets the access rights in EventStoreDB: only members of the group `clinic` read and write events, and only members of
 * `$admins` delete streams. Run it once, with a member of `$admins` in EVENTSTORE_URL.
 */
import { EventStoreDBClient, jsonEvent } from "@eventstore/db-client";

const GROUP = "clinic";
const ADMINS = "$admins";

const url = process.env.EVENTSTORE_URL;
if (!url) {
  process.stderr.write("EVENTSTORE_URL is missing. It must contain a member of $admins.\n");
  process.exit(2);
}
const client = EventStoreDBClient.connectionString(url);
await client.setStreamMetadata("$all", { acl: { readRoles: [GROUP] } });
await client.appendToStream(
  "$settings",
  jsonEvent({
    type: "update-default-acl",
    data: {
      $userStreamAcl: { $r: GROUP, $w: GROUP, $d: ADMINS, $mr: GROUP, $mw: GROUP },
      $systemStreamAcl: { $r: ADMINS, $w: ADMINS, $d: ADMINS, $mr: ADMINS, $mw: ADMINS },
    },
  }),
);
await client.dispose();
process.stdout.write(`Only members of the group ${GROUP} read and write events.\n`);
