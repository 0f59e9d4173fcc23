/** `agentd doctor`: prints what the checks of the installation find. */
import process from "node:process";
import { defineCommand } from "citty";
import { redact } from "../../base/observe.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { currentContext } from "../kit/context.ts";
import { jsonOption } from "../kit/options.ts";
import { print, printJson } from "../kit/output.ts";
import { runChecks } from "./checks.ts";
import type { Finding } from "./finding.ts";

const MARKS: Readonly<Record<Finding["status"], string>> = {
  ok: "ok  ",
  warn: "warn",
  fail: "FAIL",
  skip: "skip",
};

export const doctorCommand = defineCommand({
  meta: { name: "doctor", description: "Check the installation for problems. Exits with 1 if a check fails" },
  args: { json: jsonOption },
  async run({ args }) {
    const findings = await runChecks(currentContext());
    if (args.json) printJson({ findings });
    const skipped = findings.filter(({ status }) => status === "skip").map(({ name }) => name);
    for (const { name, status, detail, fix } of args.json ? [] : findings) {
      if (status === "skip") continue;
      print(`${MARKS[status]}  ${name.padEnd(10)} ${redact(detail)}`);
      if (fix !== undefined) print(`${" ".repeat(17)}-> ${fix}`);
    }
    if (skipped.length > 0 && !args.json) {
      print(`${MARKS.skip}  ${skipped.join(", ")}: checked once the failures above are corrected`);
    }
    if (findings.some(({ status }) => status === "fail")) process.exitCode = EXIT_FAILURE;
  },
});
