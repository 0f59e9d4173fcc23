/** `agentd doctor`: what is wrong here, and what to do. */
import process from "node:process";
import { defineCommand } from "citty";
import { redact } from "../../base/observe/redact.ts";
import { currentContext } from "../kit/context.ts";
import { examine } from "./checks.ts";
import type { Finding } from "./finding.ts";
import { print, printJson } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const MARKS: Readonly<Record<Finding["status"], string>> = { ok: "ok  ", warn: "warn", fail: "FAIL" };

export const doctorCommand = defineCommand({
  meta: { name: "doctor", description: "Look for what is wrong; exit code 1 when something is" },
  args: { json: { type: "boolean", description: "Print JSON" } },
  async run({ args }) {
    const findings = await examine(currentContext());
    if (args.json) printJson({ findings });
    for (const { name, status, detail, fix } of args.json ? [] : findings) {
      print(`${MARKS[status]}  ${name.padEnd(10)} ${redact(detail)}`);
      if (fix !== undefined) print(`${" ".repeat(17)}-> ${fix}`);
    }
    if (findings.some(({ status }) => status === "fail")) process.exitCode = EXIT_FAILURE;
  },
});
