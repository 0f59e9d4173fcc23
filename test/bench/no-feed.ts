/** Loaded before a server: its store writes no changes for the feed, so that what writing them costs can be measured. */
import { registerHooks } from "node:module";

const WITH_CHANGES = "onUncertain, onChanges)";

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith("/src/store/open.ts")) return loaded;
    const source = String(loaded.source);
    if (!source.includes(WITH_CHANGES)) throw new Error(`${url} has no ${WITH_CHANGES}`);
    return { ...loaded, source: source.replace(WITH_CHANGES, "onUncertain)") };
  },
});
