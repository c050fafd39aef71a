import fs from "node:fs";
import { buildNodeCommand, PROJECT } from "../setup/project.ts";
import type { Component, ComponentContext } from "../supervisor/component.ts";
import { openLogFile } from "../supervisor/log-file.ts";
import { startProcess } from "../supervisor/process.ts";
import { createComponent } from "../supervisor/supervised-process.ts";

/** Prepares the embedded event log, which listens on loopback. Does not start it. */
export function prepareEventstore(context: ComponentContext, port: number): Component {
  const { paths, pids } = context;
  fs.mkdirSync(paths.eventstore, { recursive: true, mode: 0o700 });
  const args = ["--dir", paths.eventstore, "--port", String(port), "--host", "127.0.0.1"];
  const output = openLogFile(paths.log("eventstore"));
  const launch = () =>
    startProcess(
      {
        name: "eventstore",
        ...buildNodeCommand("deploy/local/eventstore/main.ts", args),
        env: { PATH: process.env.PATH },
        cwd: PROJECT, // tsx is resolved from here
        ready: /^listening \d+$/m,
        log: output,
      },
      pids,
    );
  return createComponent({ name: "eventstore", launch }, context);
}
