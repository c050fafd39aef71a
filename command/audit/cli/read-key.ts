import { once } from "node:events";
import type { ReadStream } from "node:tty";

/** Ctrl-C and Ctrl-D, which a terminal in raw mode hands on. */
const END = new Set(["q", "Q", "\u0003", "\u0004"]);

/** Waits for enter or a space (the next), or q (the end); other keys do nothing. */
export async function readKey(stdin: ReadStream): Promise<"next" | "end"> {
  stdin.setRawMode(true);
  try {
    for (;;) {
      stdin.resume();
      const [keys] = (await once(stdin, "data")) as [Buffer];
      for (const key of keys.toString("utf8")) {
        if (END.has(key)) return "end";
        if (key === "\r" || key === "\n" || key === " ") return "next";
      }
    }
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
  }
}
