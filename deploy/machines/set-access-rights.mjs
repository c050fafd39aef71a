/**
 * Sets the access rights in EventStoreDB: only members of the group `clinic` read and write events, and only members of
 * `$admins` delete streams. Run it once, with a member of `$admins` in EVENTSTORE_URL.
 */
import { EventStoreDBClient, jsonEvent } from "@eventstore/db-client";

const MEMBERS = "clinic";
const ADMINS = "$admins";

const url = process.env.EVENTSTORE_URL;
if (!url) {
  process.stderr.write("EVENTSTORE_URL is missing. It must contain a member of $admins.\n");
  process.exit(2);
}
// Connect directly, even if `https_proxy` is set: every host name ends with the empty entries of this list.
process.env.no_grpc_proxy = ",";
const client = EventStoreDBClient.connectionString(url);
await client.setStreamMetadata("$all", { acl: { readRoles: [MEMBERS] } });
await client.appendToStream(
  "$settings",
  jsonEvent({
    type: "update-default-acl",
    data: {
      $userStreamAcl: { $r: MEMBERS, $w: MEMBERS, $d: ADMINS, $mr: MEMBERS, $mw: MEMBERS },
      $systemStreamAcl: { $r: ADMINS, $w: ADMINS, $d: ADMINS, $mr: ADMINS, $mw: ADMINS },
    },
  }),
);
await client.dispose();
process.stdout.write(`Only members of ${MEMBERS} read and write events.\n`);
