/** Which values of a configuration and of an environment are secret, for the redactor and for people. Pure. */
import type { Config } from "../../generated/config/types.gen.ts";
import { formatDotPath, getAtPath, isRecord } from "../base/data.ts";
import { looksLikeCredential, registerSecret } from "../base/observe.ts";
import { NO_AUTH, schemaAt } from "./check.ts";
import { isSecretSetting, settingVariables } from "./environment.ts";
import type { Environment } from "./home.ts";

const MASK = "[redacted]";

/** Sources of a home's secrets: its configuration, and the environment that the configuration refers to. */
interface SecretSources {
  readonly config: Config;
  readonly env: Environment;
  /** Variables that hold secrets, independent of their names. */
  readonly secretNames?: ReadonlySet<string>;
}

/**
 * Returns every text that must not be printed: settings that the schema marks, secret variables (see
 * {@link secretsIn}), resolved references, and credentials inside addresses.
 */
export function secretValues(
  config: Config,
  env: Environment,
  secretNames: ReadonlySet<string> = new Set(),
): string[] {
  const written = settingsIn(config).flatMap(({ path, text }) => {
    const reference = referenceIn(text);
    const value = reference === undefined ? text : (env[reference] ?? "");
    const names = [nameOf(path), ...(reference === undefined ? [] : [reference])];
    return names.flatMap((name) =>
      secretsIn(name, value, { isSecret: isMarked(path) || isAnnounced(path, config) }),
    );
  });
  const set = Object.entries(env).flatMap(([name, value]) =>
    secretsIn(name, value ?? "", { isSecret: secretNames.has(name) }),
  );
  return [...new Set([...written, ...set])];
}

/** Returns the variables that a secret setting refers to. */
export function secretReferences(config: Config): ReadonlySet<string> {
  const names = settingsIn(config).map(({ path, text }) => (isMarked(path) ? referenceIn(text) : undefined));
  return new Set(names.filter((name) => name !== undefined));
}

/** Registers everything that {@link secretValues} finds with the redactor. */
export function hideSecrets({ config, env, secretNames }: SecretSources): void {
  for (const secret of secretValues(config, env, secretNames)) registerSecret(secret);
}

/** Returns the settings that each variable supplies: by a reference, or by its name. */
export function variableUses(config: Config): ReadonlyMap<string, readonly string[]> {
  const pairs = [...referencesIn(config), ...settingVariables()];
  const byName = Map.groupBy(pairs, ([name]) => name);
  return new Map(
    [...byName].map(([name, found]) => [name, [...new Set(found.map(([, key]) => key))]] as const),
  );
}

/** Returns the variables that the configuration refers to. */
export function referredVariables(config: Config): ReadonlySet<string> {
  return new Set(referencesIn(config).map(([name]) => name));
}

function referencesIn(config: Config): readonly (readonly [name: string, key: string])[] {
  return settingsIn(config).flatMap(({ path, text }) => {
    const name = referenceIn(text);
    return name === undefined ? [] : [[name, formatDotPath(path)] as const];
  });
}

interface Leaf {
  readonly path: readonly (string | number)[];
  readonly text: string;
}

function settingsIn(value: unknown, path: Leaf["path"] = []): readonly Leaf[] {
  if (typeof value === "string") return [{ path, text: value }];
  if (Array.isArray(value)) return value.flatMap((item, index) => settingsIn(item, [...path, index]));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, item]) => settingsIn(item, [...path, name]));
}

function referenceIn(text: string): string | undefined {
  return text.startsWith("env:") ? text.slice("env:".length) : undefined;
}

/**
 * Returns the name that decides whether a value is secret: its own where names are free, a neutral one where the schema
 * defines it.
 */
function nameOf(path: Leaf["path"]): string {
  const isFree = schemaAt(path) === undefined || path.at(-2) === "env";
  return isFree ? String(path.at(-1)) : PLAIN_SETTING;
}

/** Stands for a name that the schema defines and does not mark: only credentials inside its value are hidden. */
const PLAIN_SETTING = "SETTING_NAME";

/** Returns whether the previous word of a command line is an option for a secret: `--token`, `x`. */
function isAnnounced(path: Leaf["path"], config: unknown): boolean {
  const index = path.at(-1);
  if (typeof index !== "number" || index === 0) return false;
  const before = getAtPath(config, [...path.slice(0, -1), index - 1]);
  const option = /^--?([\w-]+)$/.exec(String(before))?.[1];
  return option !== undefined && isSecretName(option);
}

/** Returns a copy of `value` (a configuration, or its part at `path`) with masked secrets, for people. */
export function maskSecrets(value: unknown, path: readonly (string | number)[] = []): unknown {
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      typeof item === "string" && isAnnounced([index], value) ? MASK : maskSecrets(item, [...path, index]),
    );
  }
  if (isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, maskSecrets(item, [...path, name])]),
    );
  }
  if (typeof value !== "string" || value === NO_AUTH || referenceIn(value) !== undefined) return value;
  if (isMarked(path) || isSecretName(nameOf(path)) || secretsIn(nameOf(path), value).includes(value))
    return MASK;
  return value
    .replace(/^([a-z][a-z0-9+.-]*:\/\/[^/@\s:]*):[^/@\s]*@/i, `$1:${MASK}@`)
    .replace(ASSIGNED, (all, lead: string, name: string) =>
      isSecretName(name) ? `${lead}${name}=${MASK}` : all,
    );
}

/** Returns whether the schema marks the value or a parent as secret. */
function isMarked(path: readonly (string | number)[]): boolean {
  return path.some((_, depth) => schemaAt(path.slice(0, depth + 1))?.["x-secret"] === true);
}

/** Matches a value with its name, in the query of an address or as an option of a command line. */
const ASSIGNED = /([?&]|^--?)([\w.-]+)=[^&#\s]+/g;

// Variables are secret by their names, and under unknown names by their values

/** Shorter secrets cannot be hidden: other text would be redacted too. */
const SHORTEST_HIDDEN = 8;
/** Limits of what one value may add to the secrets. */
const MAX_VALUE_CHARACTERS = 65_536;
const MAX_PIECES = 64;
const MAX_DEPTH = 4;

/**
 * Returns every text that has to be hidden because the variable `name` has `value`: the value itself where it is a
 * secret, and the credentials inside it (the password of an address, the token in the path of a webhook, the lines of a
 * key). Empty for a value that is not secret. `isSecret`: the variable is known to hold a secret, independent of its
 * name.
 */
export function secretsIn(
  name: string,
  value: string,
  { isSecret = false }: { readonly isSecret?: boolean } = {},
): readonly string[] {
  const text = value.trim();
  if (text === "" || text.length > MAX_VALUE_CHARACTERS || isPlaceholder(text)) return [];
  const kind = isSecret ? "secret" : kindOfName(name);
  const found = [...(isWhole(kind, name, text) ? wholeOf(value, text) : []), ...credentialsIn(name, text)];
  return [...new Set(found)].filter((each) => each.length >= SHORTEST_HIDDEN && !isOrdinary(each));
}

/**
 * Returns why a secret cannot be hidden, as a clause about its value; undefined for a hidden value or one that is not
 * secret. Hiding it would redact the same text where it means something else.
 */
export function exposureOf(
  name: string,
  value: string,
  { isSecret = false }: { readonly isSecret?: boolean } = {},
): string | undefined {
  const text = value.trim();
  if (text === "" || isPlaceholder(text)) return undefined;
  const kind = isSecret ? "secret" : kindOfName(name);
  if (kind !== "secret" || isSwitch(text) || isPath(text) || credentialsIn(name, text).length > 0)
    return undefined;
  if (text.length < SHORTEST_HIDDEN) return `has fewer than ${SHORTEST_HIDDEN} characters`;
  return isOrdinary(text) ? "is an ordinary word" : undefined;
}

/** Returns whether values of this name are secret, in any spelling: `API_KEY`, `apiKey`, `x-api-key`. */
export function isSecretName(name: string): boolean {
  return kindOfName(name) === "secret";
}

/** `weak`: a word that often means something else, such as AUTH. */
type Kind = "secret" | "weak" | "plain" | "unknown";

function kindOfName(name: string): Kind {
  const setting = isSecretSetting(name);
  if (setting !== undefined) return setting ? "secret" : "plain";
  if (PLAIN_NAMES.has(name.toUpperCase())) return "plain";
  if (SECRET_NAMES.has(name.toUpperCase())) return "secret";
  const words = wordsOf(name);
  if (words.some((word) => PUBLIC.has(word))) return "plain";
  const last = words.findLast((word) => !NUMBERING.test(word)) ?? "";
  const at = words.findLastIndex((word) => isSecretWord(word) || WEAK.has(word));
  const isSecret = at >= 0 && !(words[at] === "KEY" && OTHER_KEYS.has(words[at - 1] ?? ""));
  if (ABOUT.has(last)) return "plain";
  if (!isSecret) return "unknown";
  return words.some(isSecretWord) ? "secret" : "weak";
}

/** Splits a name: `dbPassword`, `DB_PASSWORD` and `db-password` give DB and PASSWORD. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toUpperCase()
    .split(/[^A-Z0-9]+/)
    .filter((word) => word !== "");
}

function isSecretWord(word: string): boolean {
  return SECRET_WORDS.has(word) || JOINED.test(word);
}

const SECRET_WORDS = new Set(
  (
    "KEY KEYS APIKEY TOKEN SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE PASSCODE PASS PWD PW PSW CREDENTIAL " +
    "CREDENTIALS CREDS PAT PIN OTP TOTP JWT BEARER COOKIE COOKIES SALT PEPPER MNEMONIC SEEDPHRASE HMAC SAS"
  ).split(" "),
);
/** Joined words, as in PGPASSWORD, SSHPASS, AUTHTOKEN. */
const JOINED =
  /(?:PASSWORDS?|PASSWD|PASSPHRASE|SECRETS?|(?<!^.{0,2})TOKEN|APIKEYS?|ACCESSKEY|PRIVATEKEY|SECRETKEY|(?:SSH|DB|SMTP|FTP|USER|MYSQL|PG)PASS)$/;
const WEAK = new Set(["AUTH", "AUTHORIZATION", "SESSION", "LICENSE", "SIGNATURE", "SIG"]);
/** Public values, such as the public half of a key pair. */
const PUBLIC = new Set(["PUBLIC", "PUB", "PUBLISHABLE", "SITEKEY"]);
/** After these words, KEY is not a credential. */
const OTHER_KEYS = new Set(
  "SORT PRIMARY FOREIGN PARTITION CACHE HOT SHORTCUT ROUTING IDEMPOTENCY DEDUPE INDEX ORDER ROW SITE COLUMN GROUP MAP".split(
    " ",
  ),
);
/** Names that end in these words describe a secret or name a thing: API_KEY_FILE, TOKEN_LIMIT, TENANT_ID. */
const ABOUT = new Set(
  (
    "FILE FILES PATH DIR DIRECTORY FOLDER HOST HOSTNAME PORT NAME ID IDS TYPE KIND MODE LIMIT LENGTH SIZE COUNT TTL AGE " +
    "TIMEOUT EXPIRY EXPIRES EXPIRATION LIFETIME SECONDS SECS MS MINUTES HOURS DAYS ALGORITHM ALG METHOD PROVIDER ENABLED " +
    "DISABLED REQUIRED OPTIONAL VERSION FORMAT HEADER PREFIX SUFFIX POLICY SCOPE SCOPES ISSUER AUDIENCE REGION ZONE LEVEL " +
    "SOCK SOCKET PID STORE MANAGER SHA SHA1 SHA256 HASH COMMIT DIGEST CHECKSUM FINGERPRINT REVISION REF BRANCH TAG IMAGE " +
    "PARALLELISM HINT PROMPT REGEX PATTERN COMMAND CMD HELPER USER USERNAME ACCOUNT EMAIL MODEL TIMEZONE LOCALE LANG"
  ).split(" "),
);
/** Follows the secret word: API_KEY_2. */
const NUMBERING = /^\d+$/;
/** Names that look secret, and are not. */
const PLAIN_NAMES = new Set(["PWD", "OLDPWD", "GPG_KEY", "KEYTIMEOUT", "SSH_AUTH_SOCK", "XAUTHORITY"]);
/** Names of well-known programs that hold secrets without saying so. */
const SECRET_NAMES = new Set([
  "DOCKER_AUTH_CONFIG",
  "MYSQL_PWD",
  "REDISCLI_AUTH",
  "SECRET_KEY_BASE",
  "NPM_CONFIG__AUTH",
  "RAILS_MASTER_KEY",
  "CI_JOB_JWT_V2",
]);

function isWhole(kind: Kind, name: string, text: string): boolean {
  if (looksLikeCredential(text)) return true;
  if (kind === "secret") return !isSwitch(text) && !isPath(text) && !isSafeAddress(name, text);
  if (kind === "weak") return !isSwitch(text) && !isPath(text) && isPasswordLike(text);
  return kind === "unknown" && isRandom(text);
}

/** Returns the value and the forms in which output shows it: trimmed, line by line, one of several. */
function wholeOf(value: string, text: string): readonly string[] {
  const lines = text.includes("\n") ? text.split(/\r?\n/).map((line) => line.trim()) : [];
  const several = lines.length === 0 ? text.split(/[,;]\s*/) : [];
  // A part with blanks, or of letters alone, may be ordinary words: hiding it would redact them everywhere.
  const pieces = [...lines, ...several].filter((piece) => /^(?=.*\d)\S+$/.test(piece));
  const [, scheme] = /^(?:bearer|basic|token)\s+(\S+)$/i.exec(text) ?? [];
  const [, password] = /^[^:\s/]{1,64}:([^\s/].*)$/.exec(text) ?? [];
  return [value, text, scheme, password, ...pieces.slice(0, MAX_PIECES)].filter((each) => each !== undefined);
}

/** Returns the credentials inside a value, whatever the variable is for. */
function credentialsIn(name: string, text: string, depth = 0): readonly string[] {
  if (/^[[{]/.test(text)) return inJson(text, depth);
  const isAddress = /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  const found = isAddress ? inAddress(name, text) : inPairs(text);
  const known = /-----BEGIN [A-Z ]*PRIVATE KEY/.test(text) ? wholeOf(text, text) : [];
  return [...found, ...known];
}

/**
 * Returns the credentials of an address: its password as written and decoded, secret query parameters, tokens in its
 * path.
 */
function inAddress(name: string, text: string): readonly string[] {
  const written = /^[a-z][a-z0-9+.-]*:\/\/[^/@\s:]*:([^/@\s]+)@/i.exec(text)?.[1];
  const url = URL.parse(text);
  if (!url) return written === undefined ? [] : [written];
  const user = /DSN$/i.test(name) && isRandom(url.username) ? [url.username] : [];
  const query = [...url.searchParams].flatMap(([key, value]) =>
    isSecretName(key) || /^(?:sig|sign|signature|code)$/i.test(key) || isRandom(value) ? [value] : [],
  );
  const password = written === undefined ? [] : [written, decoded(url.password)];
  return [...password, ...user, ...query, ...hookTokens(name, url, text)];
}

/** Addresses of incoming webhooks: anyone who knows them can post. */
const HOOK_HOSTS =
  /^(?:hooks\.slack\.com|(?:\w+\.)?discord(?:app)?\.com|[\w.-]*\.?webhook\.office\.com|hooks\.zapier\.com|maker\.ifttt\.com|chat\.googleapis\.com|open\.feishu\.cn|open\.larksuite\.com|api\.telegram\.org|oapi\.dingtalk\.com|qyapi\.weixin\.qq\.com|hook\.[\w.]+\.make\.com)$/i;

function hookTokens(name: string, url: URL, text: string): readonly string[] {
  const isKnown =
    HOOK_HOSTS.test(url.hostname) && /hook|services|bot\d|trigger|with\/key|robot/i.test(url.pathname);
  if (!isKnown && !/HOOK/i.test(name)) return [];
  const segments = url.pathname.split("/").map(decoded);
  const shortest = isKnown ? 20 : 12;
  const tokens = segments.filter(
    (segment) => segment.length >= shortest && (isKnown ? /\d/ : /./).test(segment),
  );
  const random = tokens.filter((segment) => isKnown || isMixed(segment.replaceAll(/[^A-Za-z0-9]/g, "")));
  return random.length === 0 ? [] : [text, ...random];
}

/** Finds passwords in `Server=db;Password=x`, `host=db password=x`, `me:x@tcp(db)/name`. */
function inPairs(text: string): readonly string[] {
  const named = [...text.matchAll(/(?:^|[\s;&])([\w .-]{1,40}?)\s*=\s*([^;&\s]+)/g)]
    .slice(0, MAX_PIECES)
    .flatMap(([, key = "", value = ""]) => (isSecretName(key.trim()) ? [value] : []));
  const dsn = /^[^\s:/@]+:([^\s@]+)@(?:tcp|unix|[\w.-]+)[(:/]/.exec(text)?.[1];
  return dsn === undefined ? named : [...named, dsn];
}

function inJson(text: string, depth: number): readonly string[] {
  if (depth >= MAX_DEPTH) return [];
  try {
    return leavesOf("", JSON.parse(text) as unknown, depth).slice(0, MAX_PIECES);
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

function leavesOf(name: string, value: unknown, depth: number): readonly string[] {
  if (depth >= MAX_DEPTH) return [];
  if (typeof value === "string") return secretsIn(name, value);
  if (Array.isArray(value)) return value.flatMap((item) => leavesOf(name, item, depth + 1));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, item]) => leavesOf(key, item, depth + 1));
}

/** Returns whether a text is long and random. */
function isRandom(text: string): boolean {
  if (/^[a-z][a-z0-9+.-]*:\/\/|^(?:[~.]{0,2}\/)|\s|@|^sha\d+[:-]/i.test(text)) return false;
  const runs = text.match(/[A-Za-z0-9]+/g) ?? [];
  if (runs.some((run) => run.length >= 20 && isMixed(run))) return true;
  // Base64 has few marks between its letters.
  if (!/^[A-Za-z0-9+/_=-]{32,}$/.test(text) || runs.length - 1 > text.length / 12) return false;
  return isMixed(runs.join(""));
}

/** Returns whether letters and digits alternate more than in words: `x7Kq2`, not `Llama3Instruct`. */
function isMixed(run: string): boolean {
  const pieces = run.match(/[A-Z]?[a-z]+|[A-Z]+|\d+/g) ?? [];
  const hasDigits = /\d/.test(run) && /[A-Za-z]/.test(run);
  return pieces.length >= 4 && run.length / pieces.length <= (hasDigits ? 3.6 : 2.6);
}

function isPasswordLike(text: string): boolean {
  return (
    !/^[a-z]+:\/\//i.test(text) &&
    (/[\d:]|[A-Z].*[a-z]|[a-z].*[A-Z]/.test(text) || /^(?:bearer|basic) /i.test(text))
  );
}

/** Returns whether the name is that of an address, and the address holds no secret. */
function isSafeAddress(name: string, text: string): boolean {
  if (!/(?:DSN|UR[LI]|ENDPOINT|ADDRESS|STRING)\d*$/i.test(name)) return false;
  return isSecretSetting(name) === undefined && /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
}

function isSwitch(text: string): boolean {
  return /^(?:true|false|yes|no|on|off|null|none|undefined|enabled|disabled|required|optional|auto|basic|bearer|[\d.,]{1,7})$/i.test(
    text,
  );
}

/** Returns whether a text is a file path; base64 may begin like one. */
function isPath(text: string): boolean {
  return (
    /^(?:~|\.{1,2})?\/[\w.@+ -]+(?:\/[\w.@+ -]+)*\/?$/.test(text) &&
    !isMixed(text.replaceAll(/[^A-Za-z0-9]/g, ""))
  );
}

/** Returns whether a text refers to a secret, or to its absence. */
function isPlaceholder(text: string): boolean {
  return text === NO_AUTH || text.startsWith("env:");
}

/** Frequent texts of eight characters and more in logs and answers. */
const ORDINARY = new Set(
  (
    "production development developer staging-env localhost username password passwords database postgres postgresql " +
    "administrator anonymous changeme change-me default-value disabled required optional automatic internal external " +
    "implicit explicit starttls undefined container kubernetes customer customers operator services service-account " +
    "application environment configuration keychain credentials credential security insecure unlimited authenticated " +
    "everybody everyone something anything whatever testtest testing-env sandbox-env template example-key redacted " +
    "placeholder your-api-key your_api_key replace-me replaceme yourpassword computer internet business research " +
    "january february september november december wednesday thursday saturday"
  ).split(" "),
);

function isOrdinary(text: string): boolean {
  return ORDINARY.has(text.toLowerCase());
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}
