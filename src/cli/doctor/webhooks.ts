/** What `agentd doctor` says of the receiver of webhooks. Touches the machine. */
import { stat } from "node:fs/promises";
import type { Config } from "../../../generated/config/types.gen.ts";
import type { Environment } from "../../config/home.ts";
import type { WebhookRoute } from "../../webhook/routes/route.ts";
import { webhookSettings, type WebhookSettings } from "../../webhook/settings.ts";
import { checkStaticRoutes, routeDefaults } from "../../webhook/routes/static-routes.ts";
import { parseSubscriptions } from "../../webhook/routes/subscription.ts";
import { readSubscriptionsText, subscriptionsPath } from "../../webhook/routes/subscriptions.ts";
import { type Verdict, occupantOf } from "./finding.ts";
import { checkEntry } from "../webhook/home.ts";

/** A secret that is shorter may be guessed by whoever can reach the receiver. */
const GOOD_SECRET_CHARACTERS = 16;

/** The first of what is wrong, the worst before the rest. */
export async function webhooks({
  config,
  home,
  env,
}: {
  readonly config: Pick<Config, "platforms">;
  readonly home: string;
  readonly env: Environment;
}): Promise<Verdict> {
  const settings = webhookSettings(config);
  if (!settings.isEnabled)
    return { status: "ok", detail: "not received; `agentd gateway setup` changes that" };
  const defaults = routeDefaults(settings, { env });
  const configured = checkStaticRoutes(settings, defaults);
  const [problem] = configured.problems;
  if (problem !== undefined) {
    return { status: "fail", detail: problem + more(configured.problems), fix: "Correct platforms.webhook." };
  }
  const path = subscriptionsPath(home);
  const parsed = parseSubscriptions(await readSubscriptionsText(path));
  if ("problem" in parsed) {
    const fix = "Correct it, or move it away; the receiver goes on with what it knew.";
    return { status: "fail", detail: `${path}: ${parsed.problem}`, fix };
  }
  const entries = Object.entries(parsed.subscriptions).filter(
    ([name]) => !Object.hasOwn(settings.routes, name),
  );
  const checked = entries.map(([name, entry]) => ({ name, ...checkEntry(name, entry, defaults) }));
  const served = checked.flatMap((each) => ("route" in each ? [each.route] : []));
  const complaints = checked.flatMap((each) =>
    ("problems" in each ? each.problems : each.warnings).map((words) => `${each.name}: ${words}`),
  );
  const routes = [...configured.routes, ...served];
  return (
    (await filePermissions(path)) ??
    (await address(settings)) ??
    complaint(complaints) ??
    routesVerdict(routes, settings)
  );
}

async function filePermissions(path: string): Promise<Verdict | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (!found || (found.mode & 0o077) === 0) return undefined;
  return { status: "fail", detail: `${path} is open to other users`, fix: `chmod 600 ${path}` };
}

async function address({ host, port }: WebhookSettings): Promise<Verdict | undefined> {
  if (port === 0) return undefined;
  const occupant = await occupantOf({ host, port });
  if (occupant.kind === "free") return undefined;
  if (occupant.kind === "health" && "platform" in occupant.body && occupant.body.platform === "webhook") {
    return undefined;
  }
  const fix =
    "Stop that program: a running gateway tries again until the address is free. Or set platforms.webhook.port, or WEBHOOK_PORT, and restart the gateway.";
  return { status: "fail", detail: `${host}:${port} is taken by something else`, fix };
}

function complaint(complaints: readonly string[]): Verdict | undefined {
  const [first] = complaints;
  if (first === undefined) return undefined;
  const fix = "Subscribe anew with `agentd webhook subscribe`, or edit webhook_subscriptions.json.";
  return { status: "warn", detail: first + more(complaints), fix };
}

function routesVerdict(routes: readonly WebhookRoute[], settings: WebhookSettings): Verdict {
  const { host, port, isLoopback } = settings;
  if (routes.length === 0) {
    const fix = "Make one with `agentd webhook subscribe`.";
    return { status: "warn", detail: `${host}:${port} has no route`, fix };
  }
  const weak = routes.find(
    ({ secrets }) => secrets !== "none" && secrets.some(({ length }) => length < GOOD_SECRET_CHARACTERS),
  );
  if (weak && !isLoopback) {
    const detail = `the secret of ${weak.name} has fewer than ${GOOD_SECRET_CHARACTERS} characters, and strangers can reach ${host}`;
    return { status: "warn", detail, fix: "Give it a longer one, as `openssl rand -hex 32` makes it." };
  }
  const reach = isLoopback ? "" : ", reachable from other machines: best behind TLS";
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
