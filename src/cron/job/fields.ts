/** The fields of a job, each as it was said, was before, or is when nobody says it. Pure. */
import { EFFORTS } from "../../agent/agent.ts";
import { formatModel, type ModelCatalog } from "../../agent/model.ts";
import { SKILL_NAME } from "../../agent/skills/skills.ts";
import { suggest } from "../../base/nearest.ts";
import { findAddressProblems, platformsOf } from "../../deliver/address.ts";
import type { JobDefinition } from "./job.ts";
import { invisibleIn, withoutInvisible } from "./invisible.ts";
import { refusal } from "./refusal.ts";
import type { JobChange } from "./options.ts";
import type { Schedule } from "../schedule/schedule.ts";

export type JobModels = Pick<ModelCatalog, "resolve" | "providers">;

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

/** An optional text: as it is said now, else as it was. */
export function given(now: string | null | undefined, before: string | undefined): string | undefined {
  if (now === undefined) return before;
  const text = now?.trim() ?? "";
  return text === "" ? undefined : text;
}

export function requireList(param: string, list: readonly string[], max: number): void {
  if (!Array.isArray(list) || !list.every((each) => typeof each === "string"))
    throw refusal(param, `${param} is a list of texts.`);
  if (list.length > max)
    throw refusal(param, `${param} has ${list.length} entries; at most ${max} are allowed.`);
}

export function readPrompt(now: string | null | undefined, before = ""): string {
  if (now === undefined) return before;
  const text = (now ?? "").toWellFormed().replace(/^\ufeff/, "");
  if (text.length > MAX_PROMPT_CHARACTERS) {
    const long = `The prompt has ${text.length} characters; at most ${MAX_PROMPT_CHARACTERS} are allowed.`;
    throw refusal("prompt", `${long} Put what is long into a skill or a file.`);
  }
  // oxlint-disable-next-line no-control-regex -- They are what is looked for.
  if (/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text))
    throw refusal("prompt", "The prompt has control characters in it. Take them out.");
  return text;
}

/** The name that was said; else the start of the prompt, the first skill, or the script. */
export function readName(
  now: string | null | undefined,
  before: string | undefined,
  { prompt, skills, script }: Pick<JobDefinition, "prompt" | "skills" | "script">,
): string {
  const said = given(now, before);
  if (said === undefined) {
    const start = oneLine(Array.from(prompt.trimStart()).slice(0, NAME_FROM_PROMPT_CHARACTERS).join(""));
    return start || skills[0] || script?.slice(0, MAX_NAME_CHARACTERS) || "cron job";
  }
  if (now === undefined) return said;
  const name = said.toWellFormed().normalize("NFC");
  if (name.length > MAX_NAME_CHARACTERS)
    throw refusal(
      "name",
      `The name has ${name.length} characters; at most ${MAX_NAME_CHARACTERS} are allowed.`,
    );
  if (/\p{Cc}|\p{Zl}|\p{Zp}/u.test(name) || invisibleIn(name) !== undefined)
    throw refusal("name", "The name has control or invisible characters in it. Take them out.");
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
      `The job has no skill ${JSON.stringify(absent.slice(0, 100))} to take away; it has ${has}.`,
    );
  }
  const skills = [...new Set([...base, ...added].map((name) => name.trim()))].filter(
    (name) => !removed.includes(name),
  );
  requireList("skills", skills, MAX_SKILLS);
  const bad = skills.find((name) => !SKILL_NAME.test(name));
  if (bad === undefined) return skills;
  const rule = "names have up to 64 of a-z, 0-9, - and _, beginning with a letter or digit";
  throw refusal("skills", `${JSON.stringify(bad.slice(0, 100))} is no name of a skill: ${rule}.`);
}

/** Of how a script is named, a sentence; whether there is one is another matter. */
export function scriptProblem(script: string): string | undefined {
  if (script.length > MAX_PATH_CHARACTERS)
    return `The script's path has ${script.length} characters; at most ${MAX_PATH_CHARACTERS} are allowed.`;
  return /\p{Cc}/u.test(script) ? "The script's path has control characters in it." : undefined;
}

/** Null: without end. A one-shot runs once whatever is said, but it is told to who asks for more. */
export function readRepeat(
  now: number | string | null | undefined,
  before: number | null | undefined,
  { kind }: Schedule,
): number | null {
  const count = now === undefined || now === null ? undefined : repeatCount(now);
  if (kind === "once") {
    if ((count ?? 1) > 1)
      throw refusal("repeat", "A schedule with one instant runs once: leave repeat out, or say `every ...`.");
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
  throw refusal("repeat", `repeat is a number up to ${MAX_REPEAT}, or one of: once, forever.`);
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
      `${param} is of jobs that repeat: one that runs once is missed when nobody sees its time.`,
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
    "overlap is skip (an instant that comes while the job is at work is left out) or allow.",
  );
}

export function readJitter(now: number | null | undefined, before: number | undefined): number {
  return readCount("jitter_seconds", now, before, { min: 0, max: MAX_JITTER_SECONDS }) ?? 0;
}

type Targets = Pick<JobDefinition, "deliver" | "failureDeliver" | "origin">;

/** Where nobody says it, a job that was asked for in a chat answers there, and others are only kept. */
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
  const said = given(text, before);
  if (text !== undefined && said !== undefined) requireAddresses(param, said);
  return said;
}

/** They need what only an event brings: the place to answer at. */
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
    throw refusal(param, `${event} answers events, and a job has none. Name a chat, an address or local.`);
  if (unfit.some((part) => (part === "," ? text.includes(part) : text === part)))
    throw refusal(param, `${param} is one address, such as telegram:-100123.`);
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
  const what = `There is no model ${JSON.stringify(name.slice(0, 100))}.`;
  throw refusal("model", `${what} Name it as provider:model; the providers are: ${known}.`);
}

export function readEffort(now: string | null | undefined, before: string | undefined): string | undefined {
  const effort = given(now, before);
  if (effort === undefined || now === undefined || EFFORTS.some((known) => known === effort)) return effort;
  throw refusal("reasoning_effort", `reasoning_effort is one of: ${EFFORTS.join(", ")}.`);
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
  const strange = names.find((name) => (known ? !known.includes(name) : name.length > 100));
  if (strange === undefined) return names;
  const hint = suggest(strange, known ?? []) || "; its name is too long";
  const what = `There is no toolset ${JSON.stringify(strange.slice(0, 100))}${hint}`;
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
  throw refusal(param, `${param} is a whole number from ${min} to ${max}.`);
}
