/** The fields of a job: from the input, from the job before the change, or their defaults. Pure. */
import { SHORT_NAME } from "../../base/text.ts";
import { EFFORTS } from "../../agent/agent.ts";
import { formatModel } from "../../agent/model.ts";
import { suggest } from "../../base/suggest.ts";
import { findAddressProblems, platformsOf } from "../../deliver/address.ts";
import { type JobDefinition, refusal, type Schedule, type JobChange, type JobModels } from "./job.ts";
import { invisibleIn, withoutInvisible } from "./check.ts";

export const MAX_PROMPT_CHARACTERS = 100_000;
export const MAX_NAME_CHARACTERS = 100;
export const MAX_SKILLS = 16;
export const MAX_CONTEXTS = 8;
const NAME_FROM_PROMPT_CHARACTERS = 50;
const MAX_TOOLSETS = 32;
const MAX_ADDRESSES_CHARACTERS = 4_000;
const MAX_PATH_CHARACTERS = 1_000;
const MAX_REPEAT = 1_000_000;
const MAX_TOKEN_BUDGET = 1_000_000_000;
const MAX_INACTIVITY_SECONDS = 86_400;
const MAX_GRACE_SECONDS = 604_800;
const MAX_JITTER_SECONDS = 86_400;
const FOREVER = new Set(["forever", "infinite", "infinity", "inf", "none", "always", "∞", ""]);

/** Returns an optional text as given now, or else as it was before. */
export function given(now: string | null | undefined, before: string | undefined): string | undefined {
  if (now === undefined) return before;
  const text = now?.trim() ?? "";
  return text === "" ? undefined : text;
}

export function requireList(param: string, list: readonly string[], max: number): void {
  if (!Array.isArray(list) || !list.every((each) => typeof each === "string"))
    throw refusal(param, `${param} must be a list of texts.`);
  if (list.length > max)
    throw refusal(param, `${param} has ${list.length} entries; at most ${max} are allowed.`);
}

export function readPrompt(now: string | null | undefined, before = ""): string {
  if (now === undefined) return before;
  const text = (now ?? "").toWellFormed().replace(/^\ufeff/, "");
  if (text.length > MAX_PROMPT_CHARACTERS) {
    const long = `The prompt has ${text.length} characters; at most ${MAX_PROMPT_CHARACTERS} are allowed.`;
    throw refusal("prompt", `${long} Move long text to a skill or a file.`);
  }
  // oxlint-disable-next-line no-control-regex -- The check is for control characters.
  if (/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text))
    throw refusal("prompt", "The prompt contains control characters. Remove them.");
  return text;
}

/** Returns the given name, or else the start of the prompt, the first skill, or the script. */
export function readName(
  now: string | null | undefined,
  before: string | undefined,
  { prompt, skills, script }: Pick<JobDefinition, "prompt" | "skills" | "script">,
): string {
  const text = given(now, before);
  if (text === undefined) {
    const start = oneLine(Array.from(prompt.trimStart()).slice(0, NAME_FROM_PROMPT_CHARACTERS).join(""));
    return start || skills[0] || script?.slice(0, MAX_NAME_CHARACTERS) || "cron job";
  }
  if (now === undefined) return text;
  const name = text.toWellFormed().normalize("NFC");
  if (name.length > MAX_NAME_CHARACTERS)
    throw refusal(
      "name",
      `The name has ${name.length} characters; at most ${MAX_NAME_CHARACTERS} are allowed.`,
    );
  if (/\p{Cc}|\p{Zl}|\p{Zp}/u.test(name) || invisibleIn(name) !== undefined)
    throw refusal("name", "The name contains control or invisible characters. Remove them.");
  return name;
}

function oneLine(text: string): string {
  return withoutInvisible(text)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .normalize("NFC");
}

export function readSkills(change: JobChange, before: readonly string[] = []): readonly string[] {
  const { skills: now, addSkills: added = [], removeSkills: removed = [], clearSkills } = change;
  const base = clearSkills ? [] : now === undefined ? before : (now ?? []);
  for (const list of [base, added, removed]) requireList("skills", list, 1_000);
  const absent = removed.find((name) => !base.includes(name));
  if (absent !== undefined) {
    const has = base.length === 0 ? "none" : base.join(", ");
    throw refusal(
      "skills",
      `The job has no skill ${JSON.stringify(absent.slice(0, 100))} to remove; it has ${has}.`,
    );
  }
  const skills = [...new Set([...base, ...added].map((name) => name.trim()))].filter(
    (name) => !removed.includes(name),
  );
  requireList("skills", skills, MAX_SKILLS);
  const bad = skills.find((name) => !SHORT_NAME.test(name));
  if (bad === undefined) return skills;
  const rule = "names have up to 64 of a-z, 0-9, - and _, and start with a letter or digit";
  throw refusal("skills", `${JSON.stringify(bad.slice(0, 100))} is not a valid skill name: ${rule}.`);
}

/** Returns why the path of a script is refused, before the file is looked up. */
export function scriptProblem(script: string): string | undefined {
  if (script.length > MAX_PATH_CHARACTERS)
    return `The script's path has ${script.length} characters; at most ${MAX_PATH_CHARACTERS} are allowed.`;
  return /\p{Cc}/u.test(script) ? "The script's path contains control characters." : undefined;
}

/** Null: no limit. A one-shot always runs once; more is refused. */
export function readRepeat(
  now: number | string | null | undefined,
  before: number | null | undefined,
  { kind }: Schedule,
): number | null {
  const count = now === undefined || now === null ? undefined : repeatCount(now);
  if (kind === "once") {
    if ((count ?? 1) > 1)
      throw refusal("repeat", "A schedule with one instant runs once: leave repeat out, or use `every ...`.");
    return 1;
  }
  if (count !== undefined) return count;
  return now === null ? null : (before ?? null);
}

function repeatCount(value: number | string): number | null {
  const text = String(value).trim().toLowerCase();
  if (FOREVER.has(text)) return null;
  if (text === "once") return 1;
  const count = /^-?\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (count <= 0) return null;
  if (count <= MAX_REPEAT) return count;
  throw refusal("repeat", `repeat must be a number up to ${MAX_REPEAT}, once or forever.`);
}

type Misfire = Pick<JobDefinition, "catchUp" | "misfireGraceSeconds">;

export function readMisfire(change: JobChange, before: Misfire, { kind }: Schedule): Misfire {
  const catchUp = change.catchUp === undefined ? before.catchUp : (change.catchUp ?? undefined);
  const grace = readCount("misfire_grace_seconds", change.misfireGraceSeconds, before.misfireGraceSeconds, {
    min: 0,
    max: MAX_GRACE_SECONDS,
  });
  const param =
    catchUp !== undefined ? "catch_up" : grace !== undefined ? "misfire_grace_seconds" : undefined;
  if (kind === "once" && param !== undefined)
    throw refusal(
      param,
      `${param} is for repeating jobs: a job that runs once is missed when no scheduler runs at its time.`,
    );
  return { catchUp, misfireGraceSeconds: grace };
}

export function readOverlap(
  now: string | null | undefined,
  before: JobDefinition["overlap"] = "skip",
): JobDefinition["overlap"] {
  if (now === undefined) return before;
  if (now === null || now === "skip") return "skip";
  if (now === "allow") return "allow";
  throw refusal(
    "overlap",
    "overlap must be skip (an instant is left out while the job is running) or allow.",
  );
}

export function readJitter(now: number | null | undefined, before: number | undefined): number {
  return readCount("jitter_seconds", now, before, { min: 0, max: MAX_JITTER_SECONDS }) ?? 0;
}

type Targets = Pick<JobDefinition, "deliver" | "failureDeliver" | "origin">;

/** By default a job that was created in a chat answers there, and any other job only writes its output file. */
export function readTargets(change: JobChange, before: Partial<Targets>): Targets {
  const origin = given(change.origin, before.origin);
  if (change.origin !== undefined && origin !== undefined)
    requireAddresses("origin", origin, ["origin", "all", ","]);
  const deliver = addresses("deliver", change.deliver, before.deliver);
  const failureDeliver = addresses("failure_deliver", change.failureDeliver, before.failureDeliver);
  return { origin, deliver: deliver ?? (origin === undefined ? "local" : "origin"), failureDeliver };
}

function addresses(
  param: string,
  now: string | readonly string[] | null | undefined,
  before: string | undefined,
): string | undefined {
  const text = typeof now === "object" && now !== null ? now.join(", ") : now;
  const value = given(text, before);
  if (text !== undefined && value !== undefined) requireAddresses(param, value);
  return value;
}

/** Platforms that answer an event, which a job does not have. */
export const EVENT_PLATFORMS = ["webhook", "github_comment"];

function requireAddresses(param: string, text: string, unfit: readonly string[] = []): void {
  if (text.length > MAX_ADDRESSES_CHARACTERS)
    throw refusal(
      param,
      `${param} has ${text.length} characters; at most ${MAX_ADDRESSES_CHARACTERS} are allowed.`,
    );
  const problems = findAddressProblems(text);
  if (problems.length > 0) throw refusal(param, `${param} cannot be used: ${problems.join("; ")}.`);
  const event = platformsOf(text).find((name) => EVENT_PLATFORMS.includes(name));
  if (event !== undefined)
    throw refusal(param, `${event} answers events, and a job has none. Use a chat, an address or local.`);
  if (unfit.some((part) => (part === "," ? text.includes(part) : text === part)))
    throw refusal(param, `${param} must be one address, such as telegram:-100123.`);
}

export function readModel(
  now: string | null | undefined,
  before: string | undefined,
  { resolve, providers }: JobModels,
): string | undefined {
  const name = given(now, before);
  if (name === undefined || now === undefined) return name;
  const ref = resolve(name);
  if (ref) return formatModel(ref);
  const known = providers.map((provider) => provider.name).join(", ");
  const what = `Unknown model ${JSON.stringify(name.slice(0, 100))}.`;
  throw refusal("model", `${what} Use provider:model; the providers are: ${known}.`);
}

export function readEffort(now: string | null | undefined, before: string | undefined): string | undefined {
  const effort = given(now, before);
  if (effort === undefined || now === undefined || EFFORTS.some((known) => known === effort)) return effort;
  throw refusal("reasoning_effort", `reasoning_effort must be one of: ${EFFORTS.join(", ")}.`);
}

export function readToolsets(
  now: readonly string[] | null | undefined,
  before: readonly string[] | undefined,
  known: readonly string[] | undefined,
): readonly string[] | undefined {
  if (now === undefined) return before;
  if (now === null) return undefined;
  requireList("toolsets", now, MAX_TOOLSETS);
  const names = [...new Set(now.map((name) => name.trim()))].filter((name) => name !== "");
  const unknown = names.find((name) => (known ? !known.includes(name) : name.length > 100));
  if (unknown === undefined) return names;
  const hint = suggest(unknown, known ?? []) || "; its name is too long";
  const what = `Unknown toolset ${JSON.stringify(unknown.slice(0, 100))}${hint}`;
  throw refusal("toolsets", hint.endsWith("?") ? what : `${what}.`);
}

type Limits = Pick<JobDefinition, "tokenBudget" | "inactivitySeconds">;

export function readLimits(change: JobChange, before: Limits): Limits {
  const tokens = { min: 1, max: MAX_TOKEN_BUDGET };
  const seconds = { min: 0, max: MAX_INACTIVITY_SECONDS };
  return {
    tokenBudget: readCount("token_budget", change.tokenBudget, before.tokenBudget, tokens),
    inactivitySeconds: readCount(
      "inactivity_seconds",
      change.inactivitySeconds,
      before.inactivitySeconds,
      seconds,
    ),
  };
}

function readCount(
  param: string,
  now: number | null | undefined,
  before: number | undefined,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  if (now === undefined) return before;
  if (now === null) return undefined;
  if (Number.isInteger(now) && now >= min && now <= max) return now;
  throw refusal(param, `${param} must be a whole number from ${min} to ${max}.`);
}
