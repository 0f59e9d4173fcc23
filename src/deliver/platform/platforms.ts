/** The platforms of a service: those that are set up get their targets, of the others messages learn what is missing. */
import type { Config } from "../../../generated/config/types.gen.ts";
import type { Environment } from "../../config/home.ts";
import {
  misfits,
  platformSettings,
  type PlatformName,
  type PlatformSettings,
} from "../../config/platform-settings.ts";
import { platforms as traits } from "../message.ts";
import type { Platform, PlatformParts, Target } from "../target.ts";

type Loaders = { readonly [Name in PlatformName]: () => Promise<Platform<PlatformSettings<Name>>> };

/** Loaded one by one: most services use one or two. */
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

/** How a platform stands, for people. */
export type PlatformState =
  | { readonly status: "ready"; readonly target: Target }
  /** Keys that are missing, a clause each. */
  | { readonly status: "incomplete"; readonly missing: readonly string[] }
  | { readonly status: "disabled" };

/** Names of the platforms that there are targets for. */
export const platformNames = Object.keys(loaders) as readonly PlatformName[];

/** A target for each platform; of one that is not ready, one that says why of every message. */
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

/** What keeps platforms of these names from sending, and what to do about it, a sentence each without its full stop. */
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
  const unready = await findMissing(name, config, env);
  return "platform" in unready ? undefined : hintOf(name, unready);
}

/** How one platform stands. Its target, when it is ready, is a new one. */
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

/** The platform, when nothing is missing. */
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

/** What these settings lack before anything can be sent, a clause each. Empty: nothing. */
export async function missingSettings<Name extends PlatformName>(
  name: Name,
  settings: PlatformSettings<Name>,
): Promise<readonly string[]> {
  return [...(await load(name)).missing(settings), ...misfits(name, settings)];
}

function load<Name extends PlatformName>(name: Name): Promise<Platform<PlatformSettings<Name>>> {
  return loaders[name]();
}

/** Others of the same store may be set up, and this one may be soon: the message stays owed as long as others do. */
function unreadyTarget(name: PlatformName, state: Unready): Target {
  return { name, send: async () => ({ status: "retry", error: `${hintOf(name, state)}.` }) };
}

function hintOf(name: PlatformName, state: Unready): string {
  const { title } = traits[name];
  return state.status === "disabled"
    ? `${title} is switched off: set platforms.${name}.enabled to true`
    : `${title} is not set up: platforms.${name} lacks ${state.missing.join(" and ")}; \`agentd gateway setup\` asks for it`;
}

/** One that nothing is set for is loaded with its first message: services start fast, and use few platforms. */
function lateTarget(name: PlatformName, find: () => Promise<Target>): Target {
  let target: Target | undefined;
  let finding: Promise<Target> | undefined;
  const findOnce = async () => {
    target = await find();
    // Whoever judges this attempt sees them already.
    Object.assign(late, traitsOf(target));
    return target;
  };
  const late: Target = {
    name,
    async send(delivery, options) {
      // Messages that come at once share it; one that is not found is looked for by the next.
      finding ??= findOnce().catch((error: unknown) => {
        finding = undefined;
        throw error;
      });
      return (await finding).send(delivery, options);
    },
    isReady: () => target?.isReady?.() !== false,
    close: async () => target?.close?.(),
  };
  return late;
}

function traitsOf({ concurrency, isOrdered, supportsIdempotency, retryDelaysMs }: Target): Partial<Target> {
  const all = { concurrency, isOrdered, supportsIdempotency, retryDelaysMs };
  return Object.fromEntries(Object.entries(all).filter(([, trait]) => trait !== undefined));
}
