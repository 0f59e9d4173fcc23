/** `agentd keys`: the API keys of the home, or of a server. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import type { ApiKey, KeyScope } from "../../client/http.ts";
import { withApi, type Api } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { toTime } from "../kit/duration.ts";
import { commaList, jsonOption, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { listTime, print, printData, printJson, printTable, warn } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";

const SCOPES: readonly KeyScope[] = [
  "chat",
  "runs",
  "approvals",
  "sessions",
  "jobs",
  "webhooks",
  "messages",
  "read",
  "admin",
];
const DEFAULT_KEEP_SECONDS = 300;

const list = defineApiCommand({
  meta: {
    name: "list",
    description: "List API keys: created ones, newest first, then those of the configuration",
  },
  args: { all: switchOption("Also list revoked keys"), json: jsonOption },
  async run({ args }) {
    await withApi(async (api) => {
      const shown = await listKeys(api, args.all ? ["active", "expired", "revoked"] : ["active", "expired"]);
      if (args.json) return printJson(shown);
      if (shown.length === 0) return warn("No keys.");
      const nowMs = Date.now();
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

const create = defineApiCommand({
  meta: { name: "create", description: "Create an API key and print its value, once" },
  args: {
    name: requiredArgument("Name of the key: letters, digits, `.`, `_` and `-`"),
    scopes: textOption("list", `Comma-separated: ${SCOPES.join(", ")}`),
    owner: textOption("name", "Owner of the data that the key reaches. Default: its name"),
    expires: textOption("time", "When it expires, such as 30d or 2027-01-31T08:00Z. Default: never"),
    "rate-limit": textOption("number", "Requests a minute. Default: no limit"),
    "max-runs": textOption("number", "Concurrent runs. Default: no limit"),
    "day-budget": textOption("usd", "US dollars that its runs may cost per day (UTC). Default: no limit"),
    json: jsonOption,
  },
  async run({ args }) {
    const { name } = args;
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name))
      throw new UsageError(
        "<name> must begin with a letter or digit, and have at most 64 letters, digits, `.`, `_` and `-`.",
      );
    const body = {
      name,
      owner: args.owner ?? name,
      scopes: [...new Set(commaList(args.scopes).map(toScope))],
      rate_limit_rpm: toCount(args["rate-limit"], "rate-limit"),
      max_concurrent_runs: toCount(args["max-runs"], "max-runs"),
      day_budget_usd: toDollars(args["day-budget"]),
      expires_at: args.expires === undefined ? null : toFuture(args.expires) / 1000,
    };
    if (body.scopes.length === 0) throw new UsageError(`--scopes must name some of ${SCOPES.join(", ")}.`);
    const { data: made } = await withApi(({ client }) => client.createKey({ body }));
    printMade(made, args.json);
  },
});

const revoke = defineApiCommand({
  meta: { name: "revoke", description: "Revoke an API key. Its streams and sockets end within five seconds" },
  args: { key: requiredArgument("Name or id of the key"), json: jsonOption },
  async run({ args }) {
    await withApi(async (api) => {
      const { id, name } = await findKey(api, args.key);
      const { data: revoked } = await api.client.deleteKey({ path: { key_id: id } });
      if (args.json) printJson(revoked);
      else print(`revoked ${name}`);
    });
  },
});

const rotate = defineApiCommand({
  meta: { name: "rotate", description: "Replace the value of an API key and print the new one, once" },
  args: {
    key: requiredArgument("Name or id of the key"),
    keep: textOption("seconds", `How long the present value still works. Default: ${DEFAULT_KEEP_SECONDS}`),
    json: jsonOption,
  },
  async run({ args }) {
    const keepSeconds = args.keep === "0" ? 0 : (toCount(args.keep, "keep") ?? DEFAULT_KEEP_SECONDS);
    await withApi(async (api) => {
      const { id } = await findKey(api, args.key);
      const body = { expire_previous_seconds: keepSeconds };
      printMade((await api.client.rotateKey({ path: { key_id: id }, body })).data, args.json);
    });
  },
});

export const keysCommand = defineCommand({
  meta: { name: "keys", description: "List, create, rotate and revoke API keys" },
  subCommands: { list, create, revoke, rotate },
});

async function listKeys({ client }: Api, status: ApiKey["status"][]): Promise<readonly ApiKey[]> {
  return (await readPages((page) => client.listKeys({ query: { status, ...page } }))).rows;
}

/** Returns the key with this id or name. ServiceError `key_not_found`. */
async function findKey(api: Api, ref: string): Promise<Pick<ApiKey, "id" | "name">> {
  const keys = await listKeys(api, ["active", "expired"]);
  const found = keys.find(({ id, name }) => id === ref || name === ref);
  if (found) return found;
  const what = `Key ${JSON.stringify(ref)} does not exist. \`agentd keys list\` lists them.`;
  throw new ServiceError("key_not_found", what);
}

function printMade(made: ApiKey, isJson: boolean | undefined): void {
  if (isJson) return printJson(made);
  warn(`The value of ${made.name} is shown only now. Keep it secret.`);
  printData(made.key ?? "");
}

function toScope(text: string): KeyScope {
  const scope = SCOPES.find((each) => each === text);
  if (scope) return scope;
  throw new UsageError(`--scopes must name some of ${SCOPES.join(", ")}.`);
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
