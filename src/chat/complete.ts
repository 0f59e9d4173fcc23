/** What the text in the composer may go on with. */
import { cleanLine } from "./clean-text.ts";
import type { GatewayCall } from "./gateway-call.ts";
import { LOCAL_COMMANDS } from "./slash.ts";
import type { Completion } from "./state/state.ts";

const MAX_COMPLETIONS = 30;
/** The word at the end that looks like a path. */
const PATH = /(?:^|\s)(@\S*|(?:\.{1,2}|~)?\/\S*)$/;

interface Wanted {
  readonly text: string;
  readonly sessionId: string;
  readonly signal: AbortSignal;
}

/** Commands for text that begins with a slash, else paths for a word that looks like one; none for all other text. */
export async function complete(call: GatewayCall, wanted: Wanted): Promise<readonly Completion[]> {
  const { text, sessionId, signal } = wanted;
  if (/^\/[^\s/]*(\s|$)/.test(text)) return commands(call, wanted);
  const word = PATH.exec(text)?.[1];
  if (word === undefined) return [];
  const { items } = await call("complete.path", { word, session_id: sessionId }, { signal });
  return items.map((item) => toCompletion(text.slice(0, text.length - word.length), item));
}

async function commands(call: GatewayCall, wanted: Wanted): Promise<readonly Completion[]> {
  const { text, sessionId, signal } = wanted;
  const params = { text, session_id: sessionId };
  const { items, replace_from: from = 1 } = await call("complete.slash", params, { signal });
  const found = items.map((item) => toCompletion(text.slice(0, from), item));
  const local = LOCAL_COMMANDS.filter(({ name }) => !/\s/.test(text) && `/${name}`.startsWith(text)).map(
    ({ name, description }) => ({ text: `/${name}`, display: `/${name}`, meta: description }),
  );
  const added = local.filter((each) => !found.some((known) => known.text === each.text));
  return [...found, ...added].slice(0, MAX_COMPLETIONS);
}

function toCompletion(
  before: string,
  item: { readonly text: string; readonly display: string; readonly meta: string },
): Completion {
  return {
    text: before + cleanLine(item.text, 4_000),
    display: cleanLine(item.display),
    meta: cleanLine(item.meta),
  };
}
