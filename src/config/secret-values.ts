/** Which values are secret: for the redactor, and for printing a configuration. Pure. */
import type { Config } from "../../generated/config/types.gen.ts";
import { isRecord } from "../base/schema.ts";
import type { Environment } from "./home.ts";
import { NO_AUTH } from "./meaning.ts";
import { platformKeys, type PlatformName } from "./platform-settings.ts";
import { conventionalVariables } from "./providers.ts";
import { schemaAt } from "./schema-path.ts";

const MASK = "[redacted]";
/** Names of variables that hold secrets, whoever uses them. */
const TELLING = /(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)$/i;
/** Of a map such as headers, every value counts. */
const SECRET_KEYS = new Set([
  "key",
  "api_key",
  "key_sha256",
  "webhook_secret",
  "headers",
  "secret",
  "secrets",
]);

/** Every secret that the process knows: keys, headers, and the password of the database; references resolved. */
export function secretValues(config: Config, env: Environment): string[] {
  const { api_server: server, model, database, web, mcp, telemetry, platforms } = config;
  const receivers = [platforms.webhook, platforms.webhook.extra];
  const written = [
    ...[...receivers, ...receivers.flatMap(({ routes = {} }) => Object.values(routes))].flatMap(
      ({ secret, secrets = [] }) => [secret, ...secrets],
    ),
    web.search?.api_key,
    ...Object.values(telemetry.headers),
    ...Object.values(mcp.servers).flatMap(({ env: own, headers }) => [
      ...Object.entries(own ?? {}).flatMap(([name, value]) => (TELLING.test(name) ? [value] : [])),
      ...Object.values(headers ?? {}),
    ]),
    server.key,
    server.webhook_secret,
    ...server.keys.map(({ key }) => key),
    ...Object.values(model.providers).flatMap(({ api_key, headers }) => [
      api_key,
      ...Object.values(headers ?? {}),
    ]),
  ];
  const resolved = written.map((value) =>
    value?.startsWith("env:") ? env[value.slice("env:".length)] : value,
  );
  const usual = ["API_SERVER_KEY", ...Object.values(conventionalVariables).flat()].map((name) => env[name]);
  const url = database.url?.startsWith("env:") ? env[database.url.slice("env:".length)] : database.url;
  const telling = Object.entries(env).flatMap(([name, value]) => (TELLING.test(name) ? [value] : []));
  const all = [...resolved, ...usual, ...telling, ...passwordsOf(url), ...platformSecrets(platforms, env)];
  return [
    ...new Set(all.filter((value) => value !== undefined && value !== "" && value !== NO_AUTH)),
  ] as string[];
}

/** What the schema calls secret of the platforms that messages are sent through, in the file and the environment. */
function platformSecrets(platforms: Config["platforms"], env: Environment): readonly string[] {
  const names = Object.keys(platforms).filter((name) => name !== "webhook") as readonly PlatformName[];
  return names.flatMap((name) => {
    const settings = platforms[name] as Readonly<Record<string, unknown>>;
    const places = [settings, Object(settings["extra"]) as Readonly<Record<string, unknown>>];
    return platformKeys(name).flatMap(({ key, variables, isSecret }) => {
      const written = places.flatMap((place) =>
        isRecord(place[key]) ? Object.values(place[key]) : [place[key]],
      );
      const texts = [...written, ...variables.map((variable) => env[variable])]
        .filter((value) => typeof value === "string")
        .map((value) => (value.startsWith("env:") ? env[value.slice("env:".length)] : value) ?? "");
      return texts.flatMap((text) => [...(isSecret ? [text, ...namedIn(text)] : []), ...passwordsOf(text)]);
    });
  });
}

/** Values in the query of an address whose names tell that they are secret: an error may show them without the rest. */
function namedIn(address: string): readonly string[] {
  const query = URL.parse(address)?.searchParams ?? [];
  return [...query].flatMap(([name, value]) => (isTelling(name) ? [value] : []));
}

/** A copy of `value` (a configuration, or what stands at `path` in one) for people to see: secrets are masked. */
export function maskSecrets(value: unknown, path: readonly (string | number)[] = []): unknown {
  if (Array.isArray(value)) {
    const isAnnounced = (index: number) => isTelling(/^--?([\w-]+)$/.exec(String(value[index - 1]))?.[1]);
    return value.map((item, index) => (isAnnounced(index) ? MASK : maskSecrets(item, [...path, index])));
  }
  if (isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, maskSecrets(item, [...path, name])]),
    );
  }
  if (typeof value !== "string" || value === NO_AUTH || value.startsWith("env:")) return value;
  if (path.some((segment, depth) => SECRET_KEYS.has(String(segment)) || isMarked(path.slice(0, depth + 1))))
    return MASK;
  if (path.at(-2) === "env" && TELLING.test(String(path.at(-1)))) return MASK;
  return value
    .replace(/^([a-z][a-z0-9+.-]*:\/\/[^/@\s:]*):[^/@\s]*@/i, `$1:${MASK}@`)
    .replace(ASSIGNED, (all, lead: string, name: string) =>
      isTelling(name) ? `${lead}${name}=${MASK}` : all,
    );
}

/** Whether the schema calls what stands there secret. */
function isMarked(path: readonly (string | number)[]): boolean {
  return schemaAt(path)?.["x-secret"] === true;
}

/** A value with its name, in the query of an address or as an option of a command line. */
const ASSIGNED = /([?&]|^--?)([\w.-]+)=[^&#\s]+/g;

/** Whether a value of this name is secret, however the name is written. */
function isTelling(name = ""): boolean {
  return TELLING.test(name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").replace(/[.-]/g, "_"));
}

/** As written and as meant: the driver sees the decoded form, an error message may show either. */
function passwordsOf(url: string | undefined): readonly string[] {
  const written = url?.match(/^[a-z][a-z0-9+.-]*:\/\/[^/@\s:]*:([^/@\s]+)@/i)?.[1];
  if (written === undefined) return [];
  const parsed = URL.parse(url ?? "");
  return parsed ? [written, safeDecode(parsed.password)] : [written];
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}
