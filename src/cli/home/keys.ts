/** `agentd keys`: the API keys in the database of the home. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { createKeyRing } from "../../config/keys.ts";
import { configuredKeyEntry, keyEntry, type KeyEntry } from "../../store/keys/format.ts";
import type { ApiKeys, MadeKey } from "../../store/keys/keys.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";
import { toTime } from "../kit/duration.ts";
import { commaList, jsonOption, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { listTime, print, printData, printJson, printTable, warn } from "../kit/output.ts";

const SCOPES = ["chat", "runs", "approvals", "sessions", "jobs", "webhooks", "messages", "read", "admin"];
const MAX_ROWS = 2_000;
const DEFAULT_KEEP_SECONDS = 300;
/** Author of changes made here. */
const ACTOR = "cli";

const list = defineCommand({
  meta: {
    name: "list",
    description: "List API keys: created ones, newest first, then those of the configuration",
  },
  args: { all: switchOption("Also list revoked keys"), json: jsonOption },
  async run({ args }) {
    await withKeys(async (keys, configured) => {
      const nowMs = Date.now();
      const statuses = [...(["active", "expired"] as const), ...(args.all ? (["revoked"] as const) : [])];
      const created = await keys.list({ statuses, limit: MAX_ROWS }, nowMs);
      const shown = [...created.map((row) => keyEntry(row, nowMs)), ...configured];
      if (args.json) return printJson(shown);
      if (shown.length === 0) return warn("No keys.");
      printTable(
        ["NAME", "OWNER", "SCOPES", "STATUS", "LAST USED", "ID"],
        shown.map((key) => [
          key.name,
          key.owner,
          key.scopes.join(","),
          key.status,
          key.last_used_at === null ? "-" : listTime(key.last_used_at * 1000, nowMs),
          key.id,
        ]),
      );
    });
  },
});

const create = defineCommand({
  meta: { name: "create", description: "Create an API key and print its value, once" },
  args: {
    name: requiredArgument("Name of the key: letters, digits, `.`, `_` and `-`"),
    scopes: textOption("list", `Comma-separated: ${SCOPES.join(", ")}`),
    owner: textOption("name", "Owner of the data that the key reaches. Default: its name"),
    expires: textOption("time", "When it expires, such as 30d or 2027-01-31T08:00Z. Default: never"),
    "rate-limit": textOption("number", "Requests a minute. Default: no limit"),
    "max-runs": textOption("number", "Concurrent runs. Default: no limit"),
    "day-budget": textOption("usd", "US dollars that its runs may cost on a day (UTC). Default: no limit"),
    json: jsonOption,
  },
  async run({ args }) {
    const { name } = args;
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name))
      throw new UsageError(
        "<name> must begin with a letter or digit, and have at most 64 letters, digits, `.`, `_` and `-`.",
      );
    const scopes = [...new Set(commaList(args.scopes))];
    const unknown = scopes.find((scope) => !SCOPES.includes(scope));
    if (unknown !== undefined || scopes.length === 0)
      throw new UsageError(`--scopes must name some of ${SCOPES.join(", ")}.`);
    await withKeys(async (keys) => {
      const made = await keys.create(
        {
          name,
          owner: args.owner ?? name,
          scopes,
          rateLimitRpm: toCount(args["rate-limit"], "rate-limit"),
          maxConcurrentRuns: toCount(args["max-runs"], "max-runs"),
          dayBudgetUsd: toDollars(args["day-budget"]),
          expiresAtMs: args.expires === undefined ? null : toFuture(args.expires),
        },
        { actor: ACTOR },
      );
      printMade(made, args.json);
    });
  },
});

const revoke = defineCommand({
  meta: { name: "revoke", description: "Revoke an API key. Its streams and sockets end within five seconds" },
  args: { key: requiredArgument("Name or id of the key"), json: jsonOption },
  async run({ args }) {
    await withKeys(async (keys) => {
      const { id, name } = await keys.revoke(await idOf(keys, args.key), { actor: ACTOR });
      if (args.json) printJson({ id, object: "agent.key", deleted: true });
      else print(`revoked ${name}`);
    });
  },
});

const rotate = defineCommand({
  meta: { name: "rotate", description: "Replace the value of an API key and print the new one, once" },
  args: {
    key: requiredArgument("Name or id of the key"),
    keep: textOption("seconds", `How long the present value still works. Default: ${DEFAULT_KEEP_SECONDS}`),
    json: jsonOption,
  },
  async run({ args }) {
    const keepSeconds = args.keep === "0" ? 0 : (toCount(args.keep, "keep") ?? DEFAULT_KEEP_SECONDS);
    await withKeys(async (keys) => {
      const made = await keys.rotate(await idOf(keys, args.key), keepSeconds * 1000, { actor: ACTOR });
      printMade(made, args.json);
    });
  },
});

export const keysCommand = defineCommand({
  meta: { name: "keys", description: "List, create, rotate and revoke API keys" },
  subCommands: { list, create, revoke, rotate },
});

async function withKeys(
  work: (keys: ApiKeys, configured: readonly KeyEntry[]) => Promise<void>,
): Promise<void> {
  const loaded = await loadConfig(currentContext());
  const config = requireValid(loaded);
  const { key, keys } = config.api_server;
  const hasKey = key !== undefined || keys.length > 0;
  const ring = hasKey ? createKeyRing(config, { env: loaded.env }) : undefined;
  if (ring && !ring.required) {
    const what = "The server requires no API key (INSECURE_NO_AUTH). Set api_server.key to a real key first.";
    throw new ServiceError("auth_required", what);
  }
  const holders = ring?.holders ?? [];
  const database = await findDatabase();
  if (!database.exists) throw new ServiceError("not_found", noDatabase(database.location));
  const { ApiKeys } = await import("../../store/keys/keys.ts");
  await withDatabase(database, (store) =>
    work(
      new ApiKeys({ store, configured: holders }),
      holders.map((each) => configuredKeyEntry(each)),
    ),
  );
}

async function idOf(keys: ApiKeys, text: string): Promise<string> {
  return text.startsWith("key_") || text.startsWith("config:") ? text : (await keys.named(text)).id;
}

function printMade({ row, secret }: MadeKey, isJson: boolean | undefined): void {
  if (isJson) return printJson({ ...keyEntry(row, Date.now()), key: secret });
  warn(`The value of ${row.name} is shown only now. Keep it secret.`);
  printData(secret);
}

function toDollars(text: string | undefined): number | null {
  if (text === undefined) return null;
  const usd = Number(text);
  if (usd > 0 && usd <= 1_000_000_000) return usd;
  throw new UsageError("--day-budget must be an amount of US dollars above 0, such as 2.50.");
}

function toCount(text: string | undefined, option: string): number | null {
  if (text === undefined) return null;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new UsageError(`--${option} must be a whole number from 1 to 999999, not ${JSON.stringify(text)}.`);
}

/** Reads a moment, or a time from now such as 30d. */
function toFuture(text: string): number {
  const nowMs = Date.now();
  const givenMs = toTime(text, "expires", nowMs);
  return /^\d+[mhd]$/.test(text) ? 2 * nowMs - givenMs : givenMs;
}
