/**
 * The platforms of a service: configured platforms get their targets, the others a target that reports what is missing.
 */
import type { Config } from "../../../generated/config/types.gen.ts";
import type { Environment } from "../../config/home.ts";
import {
  misfits,
  platformSettings,
  type PlatformName,
  type PlatformSettings,
} from "../../config/platform-settings.ts";
import { platforms as traits, type Platform, type PlatformParts, type Target } from "../target.ts";

type Loaders = { readonly [Name in PlatformName]: () => Promise<Platform<PlatformSettings<Name>>> };

/** Each platform is loaded on demand: most services use one or two. */
const loaders: Loaders = {
  bluebubbles: async () => (await import("../targets/bluebubbles.ts")).bluebubbles,
  dingtalk: async () => (await import("../targets/dingtalk/dingtalk.ts")).dingtalk,
  discord: async () => (await import("../targets/discord.ts")).discord,
  email: async () => (await import("../targets/email/email.ts")).email,
  feishu: async () => (await import("../targets/feishu.ts")).feishu,
  github_comment: async () => (await import("../targets/github-comment/github-comment.ts")).githubComment,
  homeassistant: async () => (await import("../targets/homeassistant.ts")).homeassistant,
  matrix: async () => (await import("../targets/matrix.ts")).matrix,
  mattermost: async () => (await import("../targets/mattermost.ts")).mattermost,
  qqbot: async () => (await import("../targets/qqbot.ts")).qqbot,
  signal: async () => (await import("../targets/signal.ts")).signal,
  slack: async () => (await import("../targets/slack.ts")).slack,
  sms: async () => (await import("../targets/sms.ts")).sms,
  telegram: async () => (await import("../targets/telegram.ts")).telegram,
  wecom: async () => (await import("../targets/wecom/wecom.ts")).wecom,
  weixin: async () => (await import("../targets/weixin.ts")).weixin,
  whatsapp: async () => (await import("../targets/whatsapp.ts")).whatsapp,
};

/** Readiness of a platform. */
export type PlatformState =
  | { readonly status: "ready"; readonly target: Target }
  /** The missing settings, one clause each. */
  | { readonly status: "incomplete"; readonly missing: readonly string[] }
  | { readonly status: "disabled" };

/** Names of the configurable platforms. */
export const platformNames = Object.keys(loaders) as readonly PlatformName[];

/**
 * Returns a target for each platform. The target of a platform that is not ready fails every message with the reason.
 */
export async function createPlatformTargets(
  config: Pick<Config, "platforms">,
  parts: PlatformParts,
): Promise<readonly Target[]> {
  return Promise.all(
    platformNames.map(async (name) => {
      const find = async (): Promise<Target> => {
        const state = await platformState(name, config, parts);
        return state.status === "ready" ? state.target : unreadyTarget(name, state);
      };
      const isUntouched = Object.keys(platformSettings(name, config, parts.env)).length === 0;
      return isUntouched ? lateTarget(name, find) : find();
    }),
  );
}

/** Returns why platforms of these names cannot send and what to do, one sentence each without its full stop. */
export async function platformProblems(
  names: readonly string[],
  config: Pick<Config, "platforms">,
  env: Environment,
): Promise<readonly string[]> {
  const known = platformNames.filter((name) => names.includes(name));
  const problems = await Promise.all(known.map((name) => findProblem(name, config, env)));
  return problems.filter((problem) => problem !== undefined);
}

async function findProblem<Name extends PlatformName>(
  name: Name,
  config: Pick<Config, "platforms">,
  env: Environment,
): Promise<string | undefined> {
  const found = await findMissing(name, config, env);
  return "platform" in found ? found.platform.problem?.(found.settings, env) : hintOf(name, found);
}

/** Returns the readiness of one platform, with a new target when it is ready. */
export async function platformState<Name extends PlatformName>(
  name: Name,
  config: Pick<Config, "platforms">,
  parts: PlatformParts,
): Promise<PlatformState> {
  const unready = await findMissing(name, config, parts.env);
  if (!("platform" in unready)) return unready;
  return { status: "ready", target: unready.platform.create(unready.settings, parts) };
}

type Unready = Exclude<PlatformState, { readonly status: "ready" }>;

interface Usable<Name extends PlatformName> {
  readonly platform: Platform<PlatformSettings<Name>>;
  readonly settings: PlatformSettings<Name>;
}

/** Returns the platform and its settings, or what is missing. */
async function findMissing<Name extends PlatformName>(
  name: Name,
  config: Pick<Config, "platforms">,
  env: Environment,
): Promise<Usable<Name> | Unready> {
  if (config.platforms[name].enabled === false) return { status: "disabled" };
  const settings = platformSettings(name, config, env);
  const platform = await load(name);
  const missing = [...platform.missing(settings), ...misfits(name, settings)];
  return missing.length > 0 ? { status: "incomplete", missing } : { platform, settings };
}

/** Returns the missing settings of a platform, one clause each. Empty: ready. */
export async function missingSettings<Name extends PlatformName>(
  name: Name,
  settings: PlatformSettings<Name>,
): Promise<readonly string[]> {
  return [...(await load(name)).missing(settings), ...misfits(name, settings)];
}

function load<Name extends PlatformName>(name: Name): Promise<Platform<PlatformSettings<Name>>> {
  return loaders[name]();
}

/**
 * Another process on the store may have the platform configured, and this one may get it soon, so the message is
 * retried.
 */
function unreadyTarget(name: PlatformName, state: Unready): Target {
  return { name, send: async () => ({ status: "retry", error: `${hintOf(name, state)}.` }) };
}

function hintOf(name: PlatformName, state: Unready): string {
  const { title } = traits[name];
  return state.status === "disabled"
    ? `${title} is disabled: set platforms.${name}.enabled to true`
    : `${title} is not configured: set ${state.missing.join(" and ")} of platforms.${name}, or run \`agentd gateway setup\``;
}

/** A platform without any setting is loaded with its first message, which keeps the start fast. */
function lateTarget(name: PlatformName, find: () => Promise<Target>): Target {
  let target: Target | undefined;
  let finding: Promise<Target> | undefined;
  const findOnce = async () => {
    target = await find();
    // The decision about this attempt already uses them.
    Object.assign(late, traitsOf(target));
    return target;
  };
  const late: Target = {
    name,
    async send(delivery, options) {
      // Concurrent messages share one load; after a failure the next message loads again.
      finding ??= findOnce().catch((error: unknown) => {
        finding = undefined;
        throw error;
      });
      return (await finding).send(delivery, options);
    },
    close: async () => target?.close?.(),
  };
  return late;
}

function traitsOf(target: Target): Partial<Target> {
  const { concurrency, isOrdered, supportsIdempotency, retryDelaysMs } = target;
  const isReady = target.isReady === undefined ? undefined : () => target.isReady?.() !== false;
  const all = { concurrency, isOrdered, supportsIdempotency, retryDelaysMs, isReady };
  return Object.fromEntries(Object.entries(all).filter(([, trait]) => trait !== undefined));
}
