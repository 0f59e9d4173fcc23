/** `agentd doctor`: prints what the checks of the installation find. */
import process from "node:process";
import { redact } from "../../base/observe.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import type { Doctor, DoctorFinding } from "../../client/http.ts";
import { withApi } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { currentContext } from "../kit/context.ts";
import { jsonOption } from "../kit/options.ts";
import { print, printJson } from "../kit/output.ts";
import { currentTarget } from "../kit/target.ts";
import { runChecks } from "./checks.ts";

const MARKS: Readonly<Record<DoctorFinding["status"], string>> = {
  ok: "ok  ",
  warn: "warn",
  fail: "FAIL",
  skip: "skip",
};

export const doctorCommand = defineApiCommand({
  meta: {
    name: "doctor",
    description:
      "Check the installation for problems, even one that does not start. A server checks its own installation. Exits with 1 if a check fails",
  },
  args: { json: jsonOption },
  async run({ args }) {
    const remote = (await currentTarget()) !== undefined;
    const doctor = remote
      ? await withApi(async ({ client }) => (await client.getDoctor()).data)
      : await checkHere();
    const { findings } = doctor;
    if (args.json) printJson(doctor);
    const skipped = findings.filter(({ status }) => status === "skip").map(({ name }) => name);
    for (const { name, status, detail, fix } of args.json ? [] : findings) {
      if (status === "skip") continue;
      print(`${MARKS[status]}  ${name.padEnd(10)} ${redact(detail)}`);
      if (fix !== null) print(`${" ".repeat(17)}-> ${fix}`);
    }
    if (skipped.length > 0 && !args.json) {
      print(`${MARKS.skip}  ${skipped.join(", ")}: checked once the failures above are corrected`);
    }
    if (findings.some(({ status }) => status === "fail")) process.exitCode = EXIT_FAILURE;
  },
});

/** Checks the home without the API, which a broken home does not have. */
async function checkHere(): Promise<Doctor> {
  const findings = (await runChecks(currentContext())).map(({ fix = null, ...finding }) => ({
    ...finding,
    fix,
  }));
  const worst = (["fail", "warn"] as const).find((status) => findings.some((each) => each.status === status));
  return { object: "agent.doctor", status: worst ?? "ok", findings };
}
