/** `agentd model`: which models there are, which is used, and whether it answers. */
import process from "node:process";
import { defineCommand } from "citty";
import { detectLocalModels } from "../../agent/engines/detect.ts";
import { formatModel } from "../../agent/model.ts";
import { ServiceError } from "../../base/errors.ts";
import { setConfigValue } from "../../config/file/edit.ts";
import { currentContext } from "../kit/context.ts";
import { loadModels, type ModelDeps, describeTrial, hasFailed, tryModel } from "./deps.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const show = defineCommand({
  meta: { name: "show", description: "Print the model that is used (the default)" },
  args: { json: jsonOption },
  async run({ args }) {
    const { models } = await loadModels();
    const model = formatModel(models.default);
    if (args.json) return printJson({ model });
    print(model);
    const hint =
      model === "demo:demo"
        ? "No provider is configured, so the built-in demo model answers. `agentd setup` sets one up."
        : "`agentd model list` shows the others, `agentd model set` chooses one.";
    warn(hint);
  },
});

const list = defineCommand({
  meta: { name: "list", description: "List providers and their models" },
  args: { json: jsonOption },
  async run({ args }) {
    const { models } = await loadModels();
    const listed = models.list();
    if (args.json) return printJson({ model: formatModel(models.default), providers: listed });
    for (const { name, type, models: names, hasKey, isDefault } of listed) {
      const needsKey = !["demo", "openai_compatible"].includes(type);
      const notes = [type, ...(isDefault ? ["default"] : []), ...(needsKey && !hasKey ? ["no key"] : [])];
      print(`${name}  (${notes.join(", ")})`);
      for (const model of names) print(`  ${model}${model === formatModel(models.default) ? "  *" : ""}`);
    }
  },
});

const set = defineCommand({
  meta: { name: "set", description: "Choose the model that is used where nothing else is said" },
  args: {
    model: { type: "positional", required: true, description: "`provider:model`, or `model`" },
    json: jsonOption,
  },
  async run({ args }) {
    const model = resolve(await loadModels(), args.model);
    const edited = await setConfigValue({ home: currentContext().home, key: "model.default", value: model });
    if (args.json) return printJson({ model, ...edited });
    print(`The model is ${model} now (${edited.path}). \`agentd model test\` tries it.`);
  },
});

const test = defineCommand({
  meta: { name: "test", description: "Ask a model for one sentence; exit code 1 when it does not answer" },
  args: {
    model: { type: "positional", required: false, description: "Default: the model that is used" },
    json: jsonOption,
  },
  async run({ args }) {
    const deps = await loadModels();
    const name = args.model === undefined ? formatModel(deps.models.default) : resolve(deps, args.model);
    const ref = deps.models.resolve(name) ?? deps.models.default;
    const trial = await tryModel(deps, ref);
    if (args.json) {
      const { error, text, usage } = trial.end;
      printJson({ model: name, ok: !hasFailed(trial), text, usage, ...(error ? { error } : {}) });
    } else if (hasFailed(trial)) warn(describeTrial(trial, name));
    else print(describeTrial(trial, name));
    if (hasFailed(trial)) process.exitCode = EXIT_FAILURE;
  },
});

const detect = defineCommand({
  meta: { name: "detect", description: "Look for model servers on this machine" },
  args: {
    add: { type: "boolean", description: "Write what was found into the configuration" },
    json: jsonOption,
  },
  async run({ args }) {
    const found = await detectLocalModels();
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
    if (args.json) return printJson({ servers: found, added: args.add === true });
    if (found.length === 0) return print("No model server answers on the usual ports of this machine.");
    for (const { name, baseUrl, models } of found) {
      print(`${name}  ${baseUrl}${args.add ? "  (added)" : ""}`);
      for (const model of models) print(`  ${name}:${model}`);
    }
  },
});

export const modelCommand = defineCommand({
  meta: { name: "model", description: "Show, list, choose and try models" },
  subCommands: { show, list, set, test, detect },
  default: "show",
});

function resolve({ models }: ModelDeps, name: string): string {
  const ref = models.resolve(name);
  if (ref) return formatModel(ref);
  const known = models.providers.map((provider) => provider.name).join(", ");
  throw new ServiceError(
    "model_not_found",
    `There is no model ${JSON.stringify(name)}. Name it as provider:model; the providers are: ${known}. ` +
      "`agentd setup` adds one.",
  );
}
