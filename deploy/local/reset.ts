/** `npm run reset`: deletes all local data, secrets and logs. The next start creates new ones. */
import fs from "node:fs";
import { removeLocalRoot } from "./setup/local-root.ts";
import { tryLock } from "./setup/processes.mjs";
import { getLocalPaths, getLocalRoot, getRelocatedFolder, PROJECT_FOLDER } from "./setup/project.ts";
import { runEntry, SetupError } from "./setup/setup-error.ts";

await runEntry(async () => {
  const root = getLocalRoot(process.env);
  if (!fs.existsSync(root)) return console.log(`Nothing to delete: ${root} does not exist.`);
  const paths = getLocalPaths(root);
  if (root !== getLocalRoot({}) && ![paths.version, paths.secrets].some((file) => fs.existsSync(file)))
    throw new SetupError(`${root} was not created by npm start. Nothing was deleted. Check LOCAL_DIR.`);
  const { holder } = tryLock(paths.lock);
  if (holder) throw new SetupError(`The stack in ${root} is running as process ${holder.pid}. Stop it first.`);
  removeLocalRoot(root);
  fs.rmSync(getRelocatedFolder(PROJECT_FOLDER), { recursive: true, force: true });
  console.log(`Deleted ${root}.`);
});
