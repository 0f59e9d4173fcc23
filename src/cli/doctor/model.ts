/** The check of the default model: that its server answers, knows the model, and gives it enough context. */
import { parseModel } from "../../agent/model.ts";
import { listModels } from "../../app/model-servers.ts";
import { describeModels, openModels } from "../../app/models.ts";
import { createLog } from "../../base/observe.ts";
import type { LoadedConfig } from "../../config/config.ts";
import type { ResolvedProvider } from "../../config/providers.ts";
import type { CheckResult } from "./finding.ts";

const ANSWER_TIMEOUT_MS = 5_000;
/** With less, a few files and their changes fill the conversation. */
const GOOD_CONTEXT_TOKENS = 16_000;

export async function model({ config, env }: LoadedConfig): Promise<CheckResult> {
  const models = await openModels(
    config,
    env,
    createLog("error", () => {}),
  );
  const { model: name, contextTokens = 0, problem, fix = "" } = await describeModels(models, env);
  if (problem !== undefined) return { status: "warn", detail: problem, fix };
  const { provider: owner, id } = parseModel(name);
  const provider = models.providers.find((each) => each.name === owner);
  const found = provider && (await serverProblem(provider, { name, id }));
  return found ?? smallContext(name, contextTokens) ?? good(name, contextTokens);
}

/** Requests the models of a server with an own address. The APIs of the makers cost a request over the network. */
async function serverProblem(
  provider: ResolvedProvider,
  { name, id }: { readonly name: string; readonly id: string },
): Promise<CheckResult | undefined> {
  const { baseUrl } = provider;
  if (baseUrl === undefined) return undefined;
  const host = URL.parse(baseUrl)?.host ?? "its address";
  const listing = await listModels(provider, { timeoutMs: ANSWER_TIMEOUT_MS });
  switch (listing.status) {
    case "unreachable": {
      const fix = `Start the model server, or correct model.providers.${provider.name}.base_url.`;
      return { status: "fail", detail: `${name}: no model server answers at ${host}`, fix };
    }
    case "slow": {
      const detail = `${name}: the server at ${host} did not answer in time`;
      return { status: "warn", detail, fix: "Wait until it has loaded its model, or look at its log." };
    }
    case "refused": {
      const detail = `${name}: the server at ${host} does not accept the API key (${listing.httpStatus})`;
      return { status: "fail", detail, fix: `Correct the key of model.providers.${provider.name}.` };
    }
    case "listed": {
      const { models } = listing;
      const names = [id, `${id}:latest`];
      if (models.length === 0 || models.some((each) => names.includes(each))) return undefined;
      const detail = `${name}: the server at ${host} does not list ${id}, but ${models.slice(0, 3).join(", ")}`;
      return { status: "warn", detail, fix: "Load the model into the server, or use `agentd model set`." };
    }
    case "other":
      return undefined;
  }
}

function smallContext(name: string, tokens: number): CheckResult | undefined {
  if (tokens >= GOOD_CONTEXT_TOKENS) return undefined;
  const detail = `${name} has a context of ${tokens} tokens, and the agent needs at least ${GOOD_CONTEXT_TOKENS}`;
  const fix =
    "Give it more in its server: OLLAMA_CONTEXT_LENGTH=32768 (Ollama), --ctx-size 32768 (llama.cpp), " +
    "--max-model-len (vLLM), or the context length of the model (LM Studio). Then restart that server.";
  return { status: "warn", detail, fix };
}

function good(name: string, tokens: number): CheckResult {
  return { status: "ok", detail: `${name}, ${tokens} tokens of context; test it with \`agentd model test\`` };
}
