/** `agentd model`: lists, selects and tests models. */
import process from "node:process";
import { defineCommand } from "citty";
import { configSource } from "../home/config-source.ts";
import { defineApiCommand } from "../kit/command.ts";
import { jsonOption, optionalArgument, requiredArgument, switchOption } from "../kit/options.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { modelPlace, type DefaultModel } from "./place.ts";

const show = defineApiCommand({
  meta: { name: "show", description: "Print the default model" },
  args: { json: jsonOption },
  async run({ args }) {
    const { model, contextTokens, problem, fix } = await (await modelPlace()).list();
    if (args.json) {
      return printJson({
        model,
        ...(contextTokens === undefined ? {} : { context_tokens: contextTokens }),
        ...(problem === undefined ? {} : { problem, ...(fix === undefined ? {} : { fix }) }),
      });
    }
    print(model);
    if (problem !== undefined) return warnOf({ problem, fix });
    warn(
      `Its context is ${contextTokens} tokens. List other models with \`agentd model list\`, and select one with ` +
        "`agentd model set`.",
    );
  },
});

/** Warns of a default model that cannot answer. */
function warnOf({ problem, fix }: Pick<DefaultModel, "problem" | "fix">): void {
  if (problem === undefined) return;
  // A server says both in one text.
  warn(fix === undefined ? problem : `${problem.charAt(0).toUpperCase()}${problem.slice(1)}. ${fix}`);
}

const list = defineApiCommand({
  meta: { name: "list", description: "List providers and their models" },
  args: { json: jsonOption },
  async run({ args }) {
    const { model, providers, problem, fix } = await (await modelPlace()).list();
    if (args.json) return printJson({ model, providers });
    for (const { name, type, models, has_key: hasKey, is_default: isDefault } of providers) {
      const needsKey = !["demo", "openai_compatible"].includes(type);
      const notes = [type, ...(isDefault ? ["default"] : []), ...(needsKey && !hasKey ? ["no key"] : [])];
      print(`${name}  (${notes.join(", ")})`);
      for (const each of models) print(`  ${each}${each === model ? "  *" : ""}`);
    }
    warnOf({ problem, fix });
  },
});

const set = defineApiCommand({
  meta: { name: "set", description: "Set the default model" },
  args: {
    model: requiredArgument("`provider:model`, or `model`"),
    json: jsonOption,
  },
  async run({ args }) {
    const model = await (await modelPlace()).resolve(args.model);
    const source = await configSource();
    const { changed } = await source.set("model.default", ["model", "default"], model);
    if (args.json) return printJson({ model, path: source.path, changed });
    print(`Set the default model to ${model} in ${source.place}. Test it with \`agentd model test\`.`);
  },
});

const test = defineApiCommand({
  meta: {
    name: "test",
    description: "Ask a model for one tool call and one sentence. Exits with 1 if it does not answer",
  },
  args: {
    model: optionalArgument("The model to test. Default: model.default"),
    json: jsonOption,
  },
  async run({ args }) {
    const { summary, error, ...trial } = await (await modelPlace()).test(args.model);
    if (args.json) printJson({ ...trial, ...(error === null ? {} : { error }) });
    else if (trial.ok) print(summary);
    else warn(summary);
    if (!trial.ok) process.exitCode = EXIT_FAILURE;
  },
});

const detect = defineApiCommand({
  meta: { name: "detect", description: "Find model servers on this machine, or on that of the server" },
  args: {
    add: switchOption("Add the servers to the configuration"),
    json: jsonOption,
  },
  async run({ args }) {
    const { servers, unanswered } = await (await modelPlace()).detect();
    const source = await configSource();
    for (const { name, base_url, models } of args.add ? servers : []) {
      const provider = JSON.stringify({ type: "openai_compatible", base_url, models });
      await source.set(`model.providers.${name}`, ["model", "providers", name], provider);
    }
    if (args.json) return printJson({ servers, unanswered, added: args.add === true });
    for (const address of unanswered) warn(`A server at ${address} did not answer in time.`);
    if (servers.length === 0) return print("Found no model server on the usual ports of this machine.");
    for (const { name, base_url: url, models } of servers) {
      print(`${name}  ${url}${args.add ? "  (added)" : ""}`);
      for (const model of models) print(`  ${name}:${model}`);
    }
  },
});

export const modelCommand = defineCommand({
  meta: { name: "model", description: "Show, list, select and test models" },
  subCommands: { show, list, set, test, detect },
  default: "show",
});
