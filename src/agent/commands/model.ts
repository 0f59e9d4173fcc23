import { EFFORTS, sessionOf, shown, usage, type Command } from "../agent.ts";
import { parseModelChoice } from "../model.ts";
import { ServiceError } from "../../base/errors.ts";
import { describeMode, isMode, MODES } from "../session/session.ts";

/** Commands for the model and the permission mode. */
export const modelCommands: readonly Command[] = [
  {
    name: "model",
    description: "List the models, or choose one for this session",
    category: "Model",
    hint: "[model or provider:model] [--provider <name>] [--global]",
    run: async (call) => {
      const { agent, owner, args } = call;
      const id = sessionOf(call, "model");
      if (args !== "") {
        const { name, isGlobal } = parseModelChoice(args);
        if (isGlobal) throw new ServiceError("invalid_request", ONLY_HERE);
        const model = await agent.chooseModel(id, owner, name);
        return shown(`Model: ${model}, from the next run on.`);
      }
      const { model } = await agent.status(id, owner);
      const lines = agent.deps.models.providers.flatMap(({ name, models }) =>
        models.length === 0 ? [`  ${name}:<model>`] : models.map((each) => `  ${name}:${each}`),
      );
      return shown([`Model: ${model}`, "Available:", ...lines].join("\n"));
    },
  },
  {
    name: "reasoning",
    aliases: ["effort"],
    description: "Show or choose how much the model thinks",
    category: "Model",
    hint: `[${EFFORTS.join("|")}|default]`,
    subcommands: [...EFFORTS, "default"],
    run: async (call) => {
      const { agent, owner, args } = call;
      const id = sessionOf(call, "reasoning");
      if (args === "") {
        const { reasoningEffort } = await agent.status(id, owner);
        return shown(`Reasoning effort: ${reasoningEffort ?? "the provider's default"}`);
      }
      await agent.chooseEffort(id, owner, args === "default" ? null : args);
      return shown(`Reasoning effort: ${args}, from the next run on.`);
    },
  },
  {
    name: "mode",
    description: "Show or choose what the agent may do without approval",
    category: "Model",
    hint: `[${MODES.join("|")}]`,
    subcommands: MODES,
    run: async (call) => {
      const { agent, owner, args } = call;
      const id = sessionOf(call, "mode");
      if (args === "") {
        const { mode } = await agent.status(id, owner);
        const current = mode ?? `not set; approvals.mode is ${agent.deps.settings.policyMode}`;
        const lines = MODES.map(
          (each) => `  ${each.padEnd(13)}${describeMode(each, agent.deps.settings).description}`,
        );
        return shown([`Mode: ${current}`, "Modes:", ...lines].join("\n"));
      }
      if (!isMode(args)) throw usage({ name: "mode", hint: `[${MODES.join("|")}]` });
      await agent.sessions.choose(id, owner, { mode: args });
      return shown(
        `Mode: ${args}, from the next tool call on. ${describeMode(args, agent.deps.settings).description}.`,
      );
    },
  },
  {
    name: "yolo",
    description: "Turn approvals off or on for this session, or for all sessions with global",
    category: "Model",
    hint: "[on|off] [global]",
    subcommands: ["on", "off", "global"],
    run: async (call) => {
      const { agent, owner } = call;
      const words = call.args.split(/\s+/).filter((word) => word !== "");
      const isGlobal = words.includes("global");
      const choice = words.find((word) => word !== "global");
      const isKnown = words.every((word) => ["on", "off", "global"].includes(word));
      if (!isKnown || new Set(words).size < words.length || (words.includes("on") && words.includes("off"))) {
        throw usage({ name: "yolo", hint: "[on|off] [global]" });
      }
      if (isGlobal) {
        const { switches } = agent.deps;
        switches.yolo = choice === undefined ? !switches.yolo : choice === "on";
        if (!switches.yolo && agent.deps.settings.policyMode === "yolo") return shown(CONFIGURED_OFF);
        return shown(approvalsText(switches.yolo, "all sessions until agentd restarts"));
      }
      const id = sessionOf(call, "yolo");
      const { yolo } = await agent.status(id, owner);
      const next = choice === undefined ? !yolo : choice === "on";
      await agent.sessions.choose(id, owner, { yolo: next });
      if (!next && agent.deps.settings.policyMode === "yolo") return shown(CONFIGURED_OFF);
      if (!next && agent.deps.switches.yolo) return shown(GLOBALLY_OFF);
      return shown(approvalsText(next, "this session"));
    },
  },
];

const ONLY_HERE =
  "This client cannot change the model of all sessions. Run `agentd config set model.default <provider:model>`.";
const CONFIGURED_OFF =
  "Approvals stay off: approvals.mode is yolo in the configuration. Set it to ask, and restart agentd.";
const GLOBALLY_OFF = "Approvals stay off: they are off for all sessions. Turn them on with /yolo off global.";

function approvalsText(isOff: boolean, where: string): string {
  return isOff
    ? `Approvals are off for ${where}. Forbidden actions are still refused.`
    : `Approvals are on for ${where}.`;
}
