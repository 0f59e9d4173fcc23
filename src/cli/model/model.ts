/** `agentd model`: lists, selects and tests models. */
import process from "node:process";
import { defineCommand } from "citty";
import { detectLocalServers } from "../../app/model-servers.ts";
import { lacksKey, makerOf, missingKey } from "../../app/models.ts";
import { formatModel } from "../../agent/model.ts";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig } from "../../config/config.ts";
import { setConfigValue } from "../../config/file.ts";
import { currentContext } from "../kit/context.ts";
import { hasFailed } from "../../agent/engines/scripted.ts";
import { loadModels, type ModelDeps, describeTrial, tryModelOf } from "./deps.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, optionalArgument, requiredArgument, switchOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const show = defineCommand({
  meta: { name: "show", description: "Print the default model" },
  args: { json: jsonOption },
  async run({ args }) {
    const { status } = await loadModels();
    const { model, contextTokens, problem, fix } = status;
    if (args.json) {
      return printJson({
        model,
        ...(contextTokens === undefined ? {} : { context_tokens: contextTokens }),
        ...(problem === undefined ? {} : { problem, fix }),
      });
    }
    print(model);
    if (problem !== undefined) return warn(`${sentence(problem)} ${fix ?? ""}`);
    warn(
      `Its context is ${contextTokens} tokens. List other models with \`agentd model list\`, and select one with ` +
        "`agentd model set`.",
    );
  },
});

/** Returns the clause as a sentence. */
function sentence(clause: string): string {
  return `${clause.charAt(0).toUpperCase()}${clause.slice(1)}.`;
}

const list = defineCommand({
  meta: { name: "list", description: "List providers and their models" },
  args: { json: jsonOption },
  async run({ args }) {
    const { models, status } = await loadModels();
    const listed = models.list();
    if (args.json) return printJson({ model: formatModel(models.default), providers: listed });
    for (const { name, type, models: names, hasKey, isDefault } of listed) {
      const needsKey = !["demo", "openai_compatible"].includes(type);
      const notes = [type, ...(isDefault ? ["default"] : []), ...(needsKey && !hasKey ? ["no key"] : [])];
      print(`${name}  (${notes.join(", ")})`);
      for (const model of names) print(`  ${model}${model === formatModel(models.default) ? "  *" : ""}`);
    }
    const { problem, fix } = status;
    if (problem !== undefined) warn(`${sentence(problem)} ${fix ?? ""}`);
  },
});

const set = defineCommand({
  meta: { name: "set", description: "Set the default model" },
  args: {
    model: requiredArgument("`provider:model`, or `model`"),
    json: jsonOption,
  },
  async run({ args }) {
    const model = resolve(await loadModels(), args.model);
    const edited = await setConfigValue({ home: currentContext().home, key: "model.default", value: model });
    if (args.json) return printJson({ model, ...edited });
    print(`Set the default model to ${model} in ${edited.path}. Test it with \`agentd model test\`.`);
  },
});

const test = defineCommand({
  meta: {
    name: "test",
    description: "Ask a model for one tool call and one sentence. Exits with 1 if it does not answer",
  },
  args: {
    model: optionalArgument("The model to test. Default: model.default"),
    json: jsonOption,
  },
  async run({ args }) {
    const deps = await loadModels();
    const name = args.model === undefined ? formatModel(deps.models.default) : resolve(deps, args.model);
    const ref = deps.models.resolve(name) ?? deps.models.default;
    const trial = await tryModelOf(deps, ref);
    if (args.json) {
      const { error, text, usage } = trial.end;
      const { calledTool } = trial;
      const ok = !hasFailed(trial);
      printJson({ model: name, ok, called_tool: calledTool, text, usage, ...(error ? { error } : {}) });
    } else if (hasFailed(trial)) warn(describeTrial(trial, name));
    else print(describeTrial(trial, name));
    if (hasFailed(trial)) process.exitCode = EXIT_FAILURE;
  },
});

const detect = defineCommand({
  meta: { name: "detect", description: "Find model servers on this machine" },
  args: {
    add: switchOption("Add the servers to the configuration"),
    json: jsonOption,
  },
  async run({ args }) {
    const { config } = await loadConfig(currentContext());
    const { servers: found, unanswered } = await detectLocalServers(config.model.local_servers);
    if (args.add) {
      for (const { name, baseUrl, models } of found) {
        const provider = { type: "openai_compatible", base_url: baseUrl, models };
        await setConfigValue({
          home: currentContext().home,
          key: `model.providers.${name}`,
          value: JSON.stringify(provider),
        });
      }
    }
    if (args.json) return printJson({ servers: found, unanswered, added: args.add === true });
    for (const address of unanswered) warn(`A server at ${address} did not answer in time.`);
    if (found.length === 0) return print("Found no model server on the usual ports of this machine.");
    for (const { name, baseUrl, models } of found) {
      print(`${name}  ${baseUrl}${args.add ? "  (added)" : ""}`);
      for (const model of models) print(`  ${name}:${model}`);
    }
  },
});

export const modelCommand = defineCommand({
  meta: { name: "model", description: "Show, list, select and test models" },
  subCommands: { show, list, set, test, detect },
  default: "show",
});

function resolve({ models, providers }: ModelDeps, name: string): string {
  const ref = models.resolve(name);
  const provider = providers.find((each) => each.name === ref?.provider);
  if (ref && provider && lacksKey(provider)) throw missingKey(formatModel(ref), provider);
  if (ref) return formatModel(ref);
  const maker = makerOf(name, providers);
  if (maker) throw missingKey(name, maker);
  const known = models.providers.map((provider) => provider.name).join(", ");
  throw new ServiceError(
    "model_not_found",
    `Unknown model ${JSON.stringify(name)}. Use provider:model. Configured providers: ${known}. ` +
      "Add one with `agentd setup`.",
  );
}
