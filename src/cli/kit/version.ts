import { defineCommand } from "citty";
import packageFile from "../../../package.json" with { type: "json" };
import { currentRuntime } from "../../base/system/machine.ts";
import { print, printJson } from "./output.ts";
import { jsonOption } from "./options.ts";
import { readdir } from "node:fs/promises";

export const versionCommand = defineCommand({
  meta: { name: "version", description: "Print the versions of agentd and the runtime" },
  args: { json: jsonOption },
  async run({ args }) {
    const { version } = packageFile;
    const runtime = currentRuntime();
    if (args.json) return printJson({ version, runtime });
    print(`agentd ${version} (${runtime.name} ${runtime.version})`);
  },
});

/** Relative to src/cli/kit/ and to dist/ (and its chunks/), nearest first. */
const SPEC_FOLDERS = ["./specs/", "../specs/", "../../../generated/specs/"];

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

async function ifThere<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))
      return undefined;
    throw error;
  }
}
