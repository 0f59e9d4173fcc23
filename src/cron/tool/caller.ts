/** Who makes or changes a job by the agent's tool: the run, and what it may pass on. */
import { isRunDelivery, readDelivery } from "../../agent/notify/run-trigger.ts";
import type { RunInput } from "../../agent/run/run.ts";
import { findAddressProblems } from "../../deliver/address.ts";
import { parseTarget } from "../../deliver/target.ts";
import type { Store } from "../../store/store.ts";
import { EVENT_PLATFORMS } from "../job/fields.ts";
import { readPlan } from "../run/plan.ts";

export interface Caller {
  /** The sets of tools that the run has; undefined: all that there are. */
  readonly toolsets: readonly string[] | undefined;
  /** Address at which the run itself answers, when it is one that others can write to. */
  readonly origin: string | undefined;
  /** Whether it works for a job. */
  readonly isJob: boolean;
}

/** Of a sub-agent it is the run at the top of its family that answers somewhere. */
export async function readCaller(store: Store, runId: string): Promise<Caller> {
  const run = await store.find("runs", { id: runId });
  if (!run) return { toolsets: [], origin: undefined, isJob: false };
  const { toolsets, family } = JSON.parse(run.input) as RunInput;
  const root = family ? await store.find("runs", { id: family.root.runId }) : run;
  const delivery = root?.delivery ?? null;
  const plan = readPlan(delivery);
  const isWebhooks = delivery !== null && isRunDelivery(delivery);
  const targets = plan?.targets ?? (isWebhooks ? readDelivery(delivery).targets : []);
  return { toolsets, origin: targets.find(isPlaceToAnswer), isJob: plan !== undefined };
}

/** Events end with their answer, and files and logs are no place that somebody asked from. */
function isPlaceToAnswer(target: string): boolean {
  const { platform, address } = parseTarget(target);
  return address !== "" && !EVENT_PLATFORMS.includes(platform) && findAddressProblems(target).length === 0;
}
