/** Where the agent, and people at a prompt, make and change jobs. */
import type { CronDeps } from "../deps.ts";

/** What the agent and people at a prompt need to make and change jobs, in any process. */
export type JobService = Pick<
  CronDeps,
  "store" | "clock" | "settings" | "models" | "toolsets" | "workspace" | "scriptsFolder" | "outputFolder"
> & {
  /** Further folders, absolute, that the agent may let a job work in. */
  readonly workspaceRoots?: readonly string[];
};

export const JOB_ACTIONS = ["create", "list", "show", "update", "pause", "resume", "remove", "run"] as const;

/** What the model says. Models and providers are not for it to choose: they cost, and nobody looks on. */
export interface CronjobInput {
  readonly action: (typeof JOB_ACTIONS)[number];
  readonly job?: string;
  readonly schedule?: string;
  readonly prompt?: string;
  readonly name?: string;
  readonly deliver?: string;
  readonly repeat?: number;
  readonly skills?: readonly string[];
  readonly script?: string;
  readonly no_agent?: boolean;
  readonly context_from?: readonly string[];
  readonly toolsets?: readonly string[];
  readonly workdir?: string;
  readonly time_zone?: string;
  readonly reason?: string;
  readonly all?: boolean;
}
