/** `agentd context`: the servers that commands can work on, by name. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { isLoopback } from "../../config/keys.ts";
import { UsageError } from "../kit/arguments.ts";
import { TARGET_ARGS } from "../kit/command.ts";
import { jsonOption, requiredArgument, switchOption } from "../kit/options.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import { changeContexts, LOCAL, readContexts, readToken, toServerUrl, type Contexts } from "../kit/target.ts";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

const add = defineCommand({
  meta: { name: "add", description: "Save a server and its API key under a name, or replace them" },
  args: {
    name: requiredArgument("Name of the context: letters, digits, `.`, `_` and `-`"),
    url: { ...TARGET_ARGS.url, required: true, description: "Address of the server" },
    "token-stdin": switchOption(
      "Read the API key from standard input. It is stored in a file that only you can read",
    ),
    use: switchOption("Also use the context from now on"),
    json: jsonOption,
  },
  async run({ args }) {
    const { name } = args;
    if (!NAME.test(name) || name === LOCAL) throw new UsageError(`<name> cannot be ${JSON.stringify(name)}.`);
    const url = toServerUrl(args.url);
    const key = args["token-stdin"] ? await readToken() : undefined;
    const saved = { url, ...(key === undefined ? {} : { key }) };
    await changeContexts(({ current, contexts }) => ({
      current: args.use ? name : current,
      contexts: new Map([...contexts, [name, saved]]),
    }));
    if (key !== undefined && isOpen(url))
      warn(`Warning: ${url} is not encrypted, so the key can be read on its way. Use https.`);
    if (args.json) printJson(entryOf(name, saved, args.use === true));
    else print(`Saved the context ${name}.${args.use ? " Commands work on it from now on." : ""}`);
  },
});

const use = defineCommand({
  meta: { name: "use", description: "Choose the server that commands work on" },
  args: {
    name: requiredArgument("Name of the context; `local` is this machine"),
    json: jsonOption,
  },
  async run({ args }) {
    const { name } = args;
    await changeContexts((before) => ({
      ...before,
      current: name === LOCAL ? undefined : existing(name, before),
    }));
    if (args.json) return printJson({ current: name });
    print(name === LOCAL ? "Commands work on this machine." : `Commands work on the server of ${name}.`);
  },
});

const list = defineCommand({
  meta: { name: "list", description: "List the saved servers" },
  args: { json: jsonOption },
  async run({ args }) {
    const { current, contexts } = await readContexts();
    const entries = [...contexts].map(([name, saved]) => entryOf(name, saved, name === current));
    if (args.json) return printJson({ contexts: entries, current: current ?? LOCAL });
    const cells = entries.map((each) => [
      each.is_current ? "*" : "",
      each.name,
      each.url,
      each.has_key ? "yes" : "no",
    ]);
    printTable(
      ["IN USE", "NAME", "URL", "KEY"],
      [[current === undefined ? "*" : "", LOCAL, "this machine", "-"], ...cells],
    );
  },
});

const remove = defineCommand({
  meta: { name: "remove", description: "Delete a saved server and its API key" },
  args: { name: requiredArgument("Name of the context"), json: jsonOption },
  async run({ args }) {
    const { name } = args;
    await changeContexts((before) => {
      existing(name, before);
      const contexts = new Map([...before.contexts].filter(([each]) => each !== name));
      return { current: before.current === name ? undefined : before.current, contexts };
    });
    if (args.json) printJson({ name, deleted: true });
    else print(`Removed the context ${name}.`);
  },
});

export const contextCommand = defineCommand({
  meta: { name: "context", description: "Save servers, and choose the one that commands work on" },
  subCommands: { add, use, list, remove },
});

function existing(name: string, { contexts }: Contexts): string {
  if (contexts.has(name)) return name;
  const what = `The context ${JSON.stringify(name)} does not exist. \`agentd context list\` lists them.`;
  throw new ServiceError("not_found", what);
}

function entryOf(
  name: string,
  { url, key }: { readonly url: string; readonly key?: string },
  isCurrent: boolean,
) {
  return { name, url, has_key: key !== undefined, is_current: isCurrent };
}

/** Returns whether others can read what is sent there. */
function isOpen(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !isLoopback(hostname);
}
