/** What people say of a job, as they say it. */

/** A wish as it comes from a command line, a tool or a file. Undefined: it was not said. */
export interface JobInput {
  /** As `parseSchedule` of src/cron/schedule/text.ts reads it. */
  readonly schedule?: string | undefined;
  readonly prompt?: string | undefined;
  readonly name?: string | undefined;
  readonly deliver?: string | readonly string[] | undefined;
  /** How often it runs: a number, or `once`, `forever`, `infinite` or `none`. */
  readonly repeat?: number | string | undefined;
  readonly skills?: readonly string[] | undefined;
  readonly script?: string | undefined;
  readonly isScriptOnly?: boolean | undefined;
  /** Ids or names of jobs. */
  readonly contextFrom?: readonly string[] | undefined;
  readonly failureDeliver?: string | readonly string[] | undefined;
  /** Address of the chat in which the job is made. */
  readonly origin?: string | undefined;
  readonly workdir?: string | undefined;
  readonly model?: string | undefined;
  readonly reasoningEffort?: string | undefined;
  readonly toolsets?: readonly string[] | undefined;
  readonly tokenBudget?: number | undefined;
  /** 0: no limit. */
  readonly inactivitySeconds?: number | undefined;
  readonly zone?: string | undefined;
  readonly catchUp?: boolean | undefined;
  readonly misfireGraceSeconds?: number | undefined;
  readonly overlap?: string | undefined;
  readonly jitterSeconds?: number | undefined;
}

/** Undefined leaves a field as it is; null, or an empty text, makes it what it would be had it never been said. */
export type JobChange = { readonly [Field in keyof JobInput]?: JobInput[Field] | null } & {
  readonly addSkills?: readonly string[] | undefined;
  readonly removeSkills?: readonly string[] | undefined;
  readonly clearSkills?: boolean | undefined;
};
