import type { Prompt } from "../../agent/run/prompt.ts";
import type { RunInput } from "../../agent/run/run.ts";
import { createSessionId } from "../../base/ids.ts";
import type { Claimed } from "../tick/claim.ts";
import type { JobDefinition } from "../job/job.ts";
import type { DeliveryPlan } from "./plan.ts";
import type { CronDeps } from "../deps.ts";
import { jobToolsets } from "../tool/toolsets.ts";

/** What the agent is asked for an occurrence, in a session of its own; its end is told by `plan`. */
export function jobRun(
  deps: CronDeps,
  { occurrence, job }: Claimed,
  { plan, text }: { readonly plan: DeliveryPlan; readonly text: string },
): Prompt {
  const { name, workdir, model } = job.definition;
  const ref = model === undefined ? undefined : deps.models.resolve(model);
  const stamp = (occurrence.output_file ?? "").replace(/\.md$/, "").replaceAll("-", "");
  return {
    address: {
      owner: deps.owner,
      id: createSessionId(deps.clock.now()),
      key: `cron_${job.id}_${stamp}`,
    },
    seed: {
      source: "cron",
      title: name,
      transient: true,
      ...(workdir === undefined ? {} : { cwd: workdir }),
    },
    kind: "run",
    input: inputOf(deps, job.definition, text),
    ...(ref ? { model: ref } : {}),
    delivery: JSON.stringify(plan),
  };
}

function inputOf({ settings, toolsets }: CronDeps, job: JobDefinition, text: string): RunInput {
  const { reasoningEffort, inactivitySeconds, tokenBudget = settings.runTokenBudget } = job;
  return {
    prompt: [{ role: "user", text }],
    settings: reasoningEffort === undefined ? {} : { reasoningEffort },
    toolsets: jobToolsets(job, settings, toolsets()),
    answerable: false,
    isDetached: true,
    inactivityMs: inactivitySeconds === undefined ? settings.inactivityMs : inactivitySeconds * 1000,
    ...(tokenBudget === undefined ? {} : { tokenBudget }),
    slot: { group: "cron" },
  };
}
