import { readFile } from "node:fs/promises";
import { defineCommand } from "citty";
import { optionalArgument, switchOption } from "../kit/options.ts";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/suggest.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, printData, printJson } from "../kit/output.ts";
import { findSpecFolder } from "../kit/version.ts";

/** The specs by name. */
const FILES: Readonly<Record<string, string>> = {
  http: "http.openapi.json",
  gateway: "gateway.openrpc.json",
  host: "host.openrpc.json",
  webhook: "webhook.openapi.json",
  config: "config.schema.json",
};

export const specCommand = defineCommand({
  meta: { name: "spec", description: "Print a machine-readable description of an interface, as JSON" },
  args: {
    name: optionalArgument(
      `One of ${Object.keys(FILES).join(", ")}. Omit it to list the specs of this version`,
    ),
    json: switchOption("Print the list as JSON; a spec is always JSON"),
  },
  async run({ args }) {
    const folder = await findSpecFolder();
    if (!folder)
      throw new ServiceError("internal_error", "The installed specs are missing. Reinstall agentd.");
    const existing = Object.keys(FILES).filter((name) => folder.files.includes(FILES[name] ?? ""));
    if (args.name === undefined) return args.json ? printJson(existing) : print(existing.join("\n"));
    printData(await readFile(new URL(fileOf(args.name, existing), folder.url), "utf8"));
  },
});

function fileOf(name: string, existing: readonly string[]): string {
  const file = Object.hasOwn(FILES, name) ? FILES[name] : undefined;
  const list = `Available specs: ${existing.join(", ")}.`;
  if (file === undefined) {
    const hint = suggest(name, existing);
    throw new UsageError(
      `Unknown spec ${JSON.stringify(name)}${hint.includes("?") ? `${hint} ` : ". "}${list}`,
    );
  }
  if (!existing.includes(name))
    throw new ServiceError("not_found", `This version has no spec ${JSON.stringify(name)}. ${list}`);
  return file;
}
