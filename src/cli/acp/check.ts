/** `agentd acp --check`: whether an editor could work with this program, in a line. */
import process from "node:process";
import packageFile from "../../../package.json" with { type: "json" };
import { DEMO_MODEL, formatModel } from "../../agent/model.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import { currentContext } from "../kit/context.ts";
import { print } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

/** Loads all that serving an editor needs, as the first session would. Exit code 1 when one could not begin. */
export async function check(): Promise<void> {
  const { isReady, line } = await load();
  if (!isReady) process.exitCode = EXIT_FAILURE;
  print(redact(`agentd ${packageFile.version} is ${isReady ? "ready" : "not ready"}: ${oneLine(line)}`));
}

interface Verdict {
  readonly isReady: boolean;
  /** The model that answers, or what is wrong and what to do. */
  readonly line: string;
}

async function load(): Promise<Verdict> {
  try {
    const [{ openHome, openHomeStore }, { startRpcFromHome }, { missingProvider }] = await Promise.all([
      import("../../app/home.ts"),
      import("../../app/start.ts"),
      import("../../acp/provider.ts"),
      import("../../acp/methods.ts"),
    ]);
    const opened = await openHome(currentContext());
    const service = await startRpcFromHome(opened, await openHomeStore(opened));
    const { models } = service.agent.deps;
    const missing = missingProvider(models);
    await service.stop();
    return { isReady: missing === undefined, line: missing ?? describe(formatModel(models.default)) };
  } catch (error) {
    if (error instanceof ServiceError) return { isReady: false, line: error.message };
    throw error;
  }
}

function describe(model: string): string {
  if (model !== formatModel(DEMO_MODEL)) return `${model} answers (\`agentd model test\` tries it)`;
  return "the built-in demo model answers (`agentd setup` sets up a real one)";
}

/** What is wrong with a configuration comes as a list. */
function oneLine(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "").join(" ");
}
