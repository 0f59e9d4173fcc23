/** `agentd events`: the changes of all resources, as a list or as they happen. */
import process from "node:process";
import type { FeedEvent, FeedFrame } from "../../client/http.ts";
import { withApi } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { commaList, jsonLinesOption, limitOption, textOption, toLimit } from "../kit/options.ts";
import { print, printData, warn } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";
import { oneLine } from "../sessions/text.ts";

const MAX_LIMIT = 10_000;

export const eventsCommand = defineApiCommand({
  meta: {
    name: "events",
    description:
      "List the changes of sessions, runs, questions, jobs, webhooks and messages, oldest first, or follow them as they happen",
  },
  args: {
    follow: {
      type: "boolean",
      alias: "f",
      description:
        "Continue with new events, even after a lost connection. Without --after, begin now. Ctrl-C ends it",
    },
    types: textOption("a,b", "Only these types, such as question.created or run.*"),
    after: textOption("cursor", "Continue after this event or cursor"),
    limit: limitOption("Events", { max: MAX_LIMIT, fallback: 100 }),
    json: jsonLinesOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    const types = commaList(args.types);
    const { after } = args;
    const show = (event: FeedEvent) => (args.json ? printData(JSON.stringify(event)) : print(lineOf(event)));
    await withApi(async ({ client, server, target, anyOwner: headers }) => {
      if (!args.follow) {
        // Without it a server streams.
        const asList = { ...headers, ...(target ? { Accept: "application/json" } : {}) };
        const filter = types.length === 0 ? {} : { types: [...types] };
        const read = (page: object) =>
          client.streamEvents({ query: { ...filter, ...page }, headers: asList });
        const { rows, next } = await readPages(read, { limit, after });
        for (const event of rows) show(event);
        if (rows.length === 0) warn("No events match.");
        if (next !== null) warn(`More events follow: pass --after ${next}`);
        return;
      }
      const over = new AbortController();
      for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(name, () => over.abort());
      const { streamFeed } = await import("../../client/http.ts");
      const from = { types, headers, signal: over.signal, ...(after === undefined ? {} : { after }) };
      try {
        for await (const frame of streamFeed(server, from)) if (isEvent(frame)) show(frame);
      } catch (error) {
        if (!over.signal.aborted) throw error;
      }
    });
  },
});

function isEvent(frame: FeedFrame): frame is FeedFrame & { readonly object: "event" } {
  return frame.object === "event";
}

/** Returns an event as its time, its type, what changed, and who made the change. */
function lineOf({ id, type, created_at: createdAt, actor, data }: FeedEvent): string {
  const { id: subject, object: _, ...facts } = data;
  const shown = Object.entries(facts).map(([name, value]) => `${name}=${String(value)}`);
  const parts = [new Date(createdAt * 1000).toISOString(), type, String(subject ?? ""), ...shown];
  return oneLine([...parts, ...(actor === null ? [] : [`by ${actor}`]), `(${id})`].join(" "));
}
