/** Where a command works: on this machine, or on a server. Reads the options, the environment and the saved contexts. */
import process from "node:process";
import type { ArgsDef } from "citty";
import { join } from "node:path";
import { isRecord } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import { registerSecret } from "../../base/observe.ts";
import { isCode, readPrivateFile, withFileLock, writePrivateFile } from "../../config/home.ts";
import { TARGET_ARGS } from "./command.ts";
import { repeatedOption } from "./options.ts";
import { UsageError } from "./arguments.ts";
import { currentContext } from "./context.ts";

/** A server with the key to use there. */
export interface RemoteTarget {
  readonly url: string;
  readonly key?: string;
  /** Name of the context; undefined for an address. */
  readonly context?: string;
}

/** Name of this machine among the contexts. */
export const LOCAL = "local";

interface Selection {
  readonly url?: string | undefined;
  readonly context?: string | undefined;
  readonly hasStdin: boolean;
}

let selection: Selection = { hasStdin: false };
let target: Promise<RemoteTarget | undefined> | undefined;

/**
 * Takes the options of {@link TARGET_ARGS} from words in canonical form, but not those that the command has itself.
 * Returns the other words. UsageError.
 */
export function takeTarget(words: readonly string[], own: ArgsDef): string[] {
  const end = words.indexOf("--");
  const names = Object.keys(TARGET_ARGS).filter((name) => !Object.hasOwn(own, name));
  const isOption = (word: string) =>
    names.some((name) => word === `--${name}` || word.startsWith(`--${name}=`));
  selection = {
    url: names.includes("url") ? repeatedOption(words, "url").at(-1) : undefined,
    context: repeatedOption(words, "context").at(-1),
    hasStdin: names.includes("token-stdin") && words.slice(0, end).includes("--token-stdin"),
  };
  target = undefined;
  if (selection.url !== undefined && selection.context !== undefined)
    throw new UsageError("--url and --context cannot be combined.");
  return words.filter((word, index) => index >= end || !isOption(word));
}

/**
 * Returns the server on which this command works; undefined for this machine. The option wins over AGENTD_URL, and that
 * over the context in use. UsageError; ServiceError `not_found` for an unknown context.
 */
export function currentTarget(): Promise<RemoteTarget | undefined> {
  return (target ??= findTarget(selection));
}

async function findTarget({ url, context, hasStdin }: Selection): Promise<RemoteTarget | undefined> {
  const { AGENTD_URL: environmentUrl } = process.env;
  const address = url ?? (context === undefined && environmentUrl !== "" ? environmentUrl : undefined);
  const found = address === undefined ? await savedTarget(context) : addressTarget(address, url);
  if (!hasStdin) return found;
  if (!found) throw new UsageError("--token-stdin needs --url or --context.");
  return { ...found, key: await readToken() };
}

function addressTarget(address: string, option: string | undefined): RemoteTarget {
  const { API_SERVER_KEY: key } = process.env;
  const url = toServerUrl(address, option === undefined ? "AGENTD_URL" : "--url");
  return { url, ...(key ? { key } : {}) };
}

async function savedTarget(name: string | undefined): Promise<RemoteTarget | undefined> {
  const { current, contexts } = await readContexts();
  const chosen = name ?? current;
  if (chosen === undefined || chosen === LOCAL) return undefined;
  const saved = contexts.get(chosen);
  if (saved) return { ...saved, context: chosen };
  const what = `The context ${JSON.stringify(chosen)} does not exist. \`agentd context list\` lists them.`;
  throw new ServiceError("not_found", what);
}

/** Reads a key from standard input. UsageError when it is empty. */
export async function readToken(): Promise<string> {
  const { readSecret } = await import("./streams.ts");
  const key = await readSecret("--token-stdin");
  if (!/^[\x21-\x7e]{1,4096}$/.test(key)) throw new UsageError("--token-stdin: an API key is one word.");
  registerSecret(key);
  return key;
}

/** Returns the address of a server without a slash or `/v1` at its end. UsageError. */
export function toServerUrl(text: string, option = "--url"): string {
  const url = URL.parse(text);
  const isUsable = url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
  if (!isUsable) throw new UsageError(`${option} must be an address such as https://agent.example.com.`);
  if (url.username !== "" || url.password !== "")
    throw new UsageError(`${option} must not have a password. Pass the API key with --token-stdin.`);
  return `${url.origin}${url.pathname.replace(/\/+$/, "").replace(/\/v1$/, "")}`;
}

/** The saved servers, by name. */
export interface Contexts {
  /** The one in use; undefined: this machine. */
  readonly current?: string | undefined;
  readonly contexts: ReadonlyMap<string, { readonly url: string; readonly key?: string }>;
}

function contextsPath(): string {
  return join(currentContext().home, "contexts.json");
}

/** ServiceError `invalid_config` for a broken file. */
export async function readContexts(): Promise<Contexts> {
  const path = contextsPath();
  const text = await readPrivateFile(path).catch((error: unknown) => {
    // The home lies below a file: the command says so in its own words.
    if (error instanceof ServiceError && isCode(error.cause, "ENOTDIR")) return undefined;
    throw error;
  });
  if (text === undefined) return { contexts: new Map() };
  try {
    return parseContexts(JSON.parse(text));
  } catch (cause) {
    const what = `${path} is not readable: delete it, then add the contexts again.`;
    throw new ServiceError("invalid_config", what, { cause });
  }
}

/** Changes the saved servers, in a file that only the user can read. */
export async function changeContexts(change: (before: Contexts) => Contexts): Promise<void> {
  const path = contextsPath();
  await withFileLock(path, async () => {
    const { current = null, contexts } = change(await readContexts());
    await writePrivateFile(
      path,
      JSON.stringify({ current, contexts: Object.fromEntries(contexts) }, null, 2),
    );
  });
}

function parseContexts(value: unknown): Contexts {
  if (!isRecord(value) || !isRecord(value["contexts"])) throw new TypeError("contexts are missing");
  const contexts = Object.entries(value["contexts"]).map(([name, saved]) => {
    const { url, key } = isRecord(saved) ? saved : {};
    if (typeof url !== "string") throw new TypeError(`${name} has no url`);
    if (typeof key !== "string") return [name, { url }] as const;
    registerSecret(key);
    return [name, { url, key }] as const;
  });
  const { current } = value;
  return { ...(typeof current === "string" ? { current } : {}), contexts: new Map(contexts) };
}
