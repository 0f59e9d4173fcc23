/** Loaded before a server: its store writes the changes of the feed only while it is told to, so that their cost shows. */
import { registerHooks } from "node:module";
import process from "node:process";

const WITH_CHANGES = "const onChanges = this.#onChanges;";

const feed = { isWritten: true };
Object.assign(globalThis, { benchFeed: feed });
process.on("message", (request: unknown) => {
  if (typeof request !== "object" || request === null || !("feed" in request)) return;
  feed.isWritten = request.feed === true;
});

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith("/src/store/tx/group.ts")) return loaded;
    const source = String(loaded.source);
    if (!source.includes(WITH_CHANGES)) throw new Error(`${url} has no ${WITH_CHANGES}`);
    const asked = "const onChanges = globalThis.benchFeed.isWritten ? this.#onChanges : undefined;";
    return { ...loaded, source: source.replace(WITH_CHANGES, asked) };
  },
});
