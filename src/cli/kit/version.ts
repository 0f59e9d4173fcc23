import { defineCommand } from "citty";
import { currentRuntime } from "../../base/system/runtime.ts";
import { print, printJson } from "./output.ts";
import { jsonOption } from "./options.ts";
import { readdir, readFile } from "node:fs/promises";

export const versionCommand = defineCommand({
  meta: { name: "version", description: "Print the versions of agentd and the runtime" },
  args: { json: jsonOption },
  async run({ args }) {
    const version = await readVersion();
    const runtime = currentRuntime();
    if (args.json) return printJson({ version, runtime });
    print(`agentd ${version} (${runtime.name} ${runtime.version})`);
  },
});

/** Relative to src/cli/kit/ and to dist/ (and its chunks/), nearest first. */
const SPEC_FOLDERS = ["./specs/", "../specs/", "../../../generated/specs/"];
const PACKAGE_FILES = ["../package.json", "../../package.json", "../../../package.json"];

/** Returns the first folder with a `*.openapi.json` file, and the names of its files. */
export async function findSpecFolder(): Promise<
  { readonly url: URL; readonly files: readonly string[] } | undefined
> {
  for (const folder of SPEC_FOLDERS) {
    const url = new URL(folder, import.meta.url);
    const files = (await ifThere(readdir(url))) ?? [];
    if (files.some((name) => name.endsWith(".openapi.json"))) return { url, files };
  }
  return undefined;
}

/** Returns the version of the package, or "unknown" if its package.json is missing. */
export async function readVersion(): Promise<string> {
  for (const file of PACKAGE_FILES) {
    const text = await ifThere(readFile(new URL(file, import.meta.url), "utf8"));
    const { name, version } = JSON.parse(text ?? "{}") as {
      readonly name?: string;
      readonly version?: string;
    };
    if (name === "agentd" && version !== undefined) return version;
  }
  return "unknown";
}

async function ifThere<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))
      return undefined;
    throw error;
  }
}
