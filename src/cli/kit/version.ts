import { defineCommand } from "citty";
import { currentRuntime } from "../../base/system/runtime.ts";
import { print, printJson } from "./output.ts";
import { readVersion } from "./package-file.ts";

export const versionCommand = defineCommand({
  meta: { name: "version", description: "Print the version of agentd and of the runtime" },
  args: { json: { type: "boolean", description: "Print JSON" } },
  async run({ args }) {
    const version = await readVersion();
    const runtime = currentRuntime();
    if (args.json) return printJson({ version, runtime });
    print(`agentd ${version} (${runtime.name} ${runtime.version})`);
  },
});
