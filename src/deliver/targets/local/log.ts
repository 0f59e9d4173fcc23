import type { Log } from "../../../base/observe/log.ts";
import { redact } from "../../../base/observe/redact.ts";
import type { Target } from "../../target.ts";

const SHOWN_CHARACTERS = 200;

/** Writes the start of each text to the log: for whoever only wants to see what would be sent. */
export function createLogTarget(log: Log): Target {
  return {
    name: "log",
    isOrdered: false,
    // A line that stands there twice harms nobody.
    supportsIdempotency: true,
    async send({ payload, ref }) {
      const { text = "" } = payload as { readonly text?: string };
      const shown = Array.from(redact(text)).slice(0, SHOWN_CHARACTERS).join("");
      log.info("a response for the log", { ref, text: shown });
      return { status: "delivered" };
    },
  };
}
