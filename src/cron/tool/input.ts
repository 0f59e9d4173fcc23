/** The input of the agent's tool for jobs. */
export const JOB_ACTIONS = ["create", "list", "show", "update", "pause", "resume", "remove", "run"] as const;

/** The input of the model. It cannot choose models and providers: those cost money, and scheduled runs are unattended. */
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
