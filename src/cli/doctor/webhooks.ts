/** The check of the webhook receiver. Touches the machine. */
import { stat } from "node:fs/promises";
import type { Config } from "../../../generated/config/types.gen.ts";
import type { Environment } from "../../config/home.ts";
import {
  checkStaticRoutes,
  routeDefaults,
  webhookSettings,
  type WebhookRoute,
  type WebhookSettings,
} from "../../webhook/routes/route.ts";
import {
  checkEntry,
  parseSubscriptions,
  problemsOf,
  readSubscriptionsText,
  subscriptionsPath,
} from "../../webhook/routes/subscriptions.ts";
import { occupantOf, urlOf } from "../kit/local-gateway.ts";
import type { CheckResult } from "./finding.ts";

/** A shorter secret may be guessed. */
const GOOD_SECRET_CHARACTERS = 16;

/** Returns the most severe problem. */
export async function webhooks({
  config,
  home,
  env,
}: {
  readonly config: Pick<Config, "platforms" | "api_server">;
  readonly home: string;
  readonly env: Environment;
}): Promise<CheckResult> {
  const settings = webhookSettings(config);
  if (!settings.isEnabled)
    return { status: "ok", detail: "disabled; enable them with `agentd gateway setup`" };
  const defaults = routeDefaults(settings, { env });
  const configured = checkStaticRoutes(settings, defaults);
  const [problem] = configured.problems;
  if (problem !== undefined) {
    return { status: "fail", detail: problem + more(configured.problems), fix: "Correct platforms.webhook." };
  }
  const path = subscriptionsPath(home);
  const parsed = parseSubscriptions(await readSubscriptionsText(path));
  if ("problem" in parsed) {
    const fix = "Correct it, or move it away. The receiver keeps the previous contents.";
    return { status: "fail", detail: `${path}: ${parsed.problem}`, fix };
  }
  const entries = Object.entries(parsed.subscriptions).filter(
    ([name]) => !Object.hasOwn(settings.routes, name),
  );
  const checked = entries.map(([name, entry]) => ({ name, ...checkEntry(name, entry, defaults) }));
  const served = checked.flatMap((each) => ("route" in each ? [each.route] : []));
  const problems = checked.flatMap((each) => problemsOf(each).map((words) => `${each.name}: ${words}`));
  const routes = [...configured.routes, ...served];
  return (
    (await filePermissions(path)) ??
    samePort(settings, config.api_server) ??
    (await address(settings)) ??
    firstProblem(problems) ??
    checkRoutes(routes, settings)
  );
}

async function filePermissions(path: string): Promise<CheckResult | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (!found || (found.mode & 0o077) === 0) return undefined;
  return { status: "fail", detail: `${path} is open to other users`, fix: `chmod 600 ${path}` };
}

/** The receiver has a listener of its own, and the API takes the port first. */
function samePort({ host, port }: WebhookSettings, api: Config["api_server"]): CheckResult | undefined {
  if (port !== api.port || port === 0) return undefined;
  const isEverywhere = [host, api.host].some((each) => ["0.0.0.0", "::", "[::]", ""].includes(each));
  if (host !== api.host && !isEverywhere) return undefined;
  const detail = `platforms.webhook.port and api_server.port are both ${port}, so no webhook arrives`;
  return { status: "fail", detail, fix: "Set platforms.webhook.port or WEBHOOK_PORT to another port." };
}

async function address({ host, port }: WebhookSettings): Promise<CheckResult | undefined> {
  if (port === 0) return undefined;
  const occupant = await occupantOf(urlOf({ host, port }));
  if (occupant.kind === "free") return undefined;
  if (occupant.kind === "health" && "platform" in occupant.body && occupant.body.platform === "webhook") {
    return undefined;
  }
  const fix =
    "Stop that program: a running gateway retries until the address is free. Or set platforms.webhook.port or WEBHOOK_PORT and restart the gateway.";
  return { status: "fail", detail: `${host}:${port} is in use by another program`, fix };
}

function firstProblem(problems: readonly string[]): CheckResult | undefined {
  const [first] = problems;
  if (first === undefined) return undefined;
  const fix = "Subscribe again with `agentd webhook subscribe`, or edit webhook_subscriptions.json.";
  return { status: "warn", detail: first + more(problems), fix };
}

function checkRoutes(routes: readonly WebhookRoute[], settings: WebhookSettings): CheckResult {
  const { host, port, isLoopback } = settings;
  if (routes.length === 0) {
    const fix = "Create one with `agentd webhook subscribe`.";
    return { status: "warn", detail: `${host}:${port} has no route`, fix };
  }
  const weak = routes.find(
    ({ secrets }) => secrets !== "none" && secrets.some(({ length }) => length < GOOD_SECRET_CHARACTERS),
  );
  if (weak && !isLoopback) {
    const detail = `the secret of ${weak.name} has fewer than ${GOOD_SECRET_CHARACTERS} characters, and ${host} is public`;
    return { status: "warn", detail, fix: "Use a longer one, such as from `openssl rand -hex 32`." };
  }
  const reach = isLoopback ? "" : ", reachable from other machines (put TLS in front of it)";
  return { status: "ok", detail: `${host}:${port}, routes: ${names(routes)}${reach}` };
}

const MAX_NAMED = 5;

function names(routes: readonly WebhookRoute[]): string {
  const shown = routes.slice(0, MAX_NAMED).map(({ name }) => name);
  return shown.join(", ") + (routes.length > MAX_NAMED ? ` and ${routes.length - MAX_NAMED} more` : "");
}

function more(problems: readonly string[]): string {
  return problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
}
