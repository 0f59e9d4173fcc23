/**
 * Checks of reading and writing paths. Paths are absolute and without `.` and `..`; words of commands may contain the
 * marks of words.ts for parts that are only known at run time. Pure.
 */
import { ask, deny, type Finding } from "./risk.ts";
import { ANY, BELOW, NAME, nameMatches } from "./words.ts";

/** Absolute paths without `.` and `..`. */
export interface PolicyPaths {
  readonly workspace: string;
  /** Further folders of the workspace. */
  readonly roots?: readonly string[];
  readonly home: string;
  readonly agentHome: string;
}

const MAX_PIECES = 32;
const MAX_FIELD_CHARACTERS = 4_096;

const secretNames: readonly RegExp[] = [
  /^\.env(\.(?!example$|sample$|template$|dist$).*)?$/,
  /^\.envrc$/,
  /^id_(rsa|dsa|ecdsa|ed25519)(_sk)?$/,
  /.\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)$/,
  /^(\.(credentials|secrets?)|\.?(credentials|secrets?)\.(json|ya?ml|toml|ini|txt))$/,
  /^(service[-_]?account|client[-_]secret|application_default_credentials).*\.json$/,
  /^\.(netrc|_netrc|npmrc|pypirc|pgpass|my\.cnf|git-credentials|htpasswd|vault-token|boto|s3cfg)$/,
  /^(shadow-?|gshadow-?|sudoers|master\.passwd)$/,
  /^\.(bash|zsh|python|node_repl|psql|mysql|sqlite)_history$/,
];
/** Folders whose whole content is secret, at any depth. */
const secretFolders = new Set(".ssh .gnupg .aws .azure .kube .docker .password-store .oci".split(" "));
const secretFolderPairs = [
  ".config/gcloud",
  ".config/gh",
  ".config/op",
  ".config/hub",
  ".local/share/keyrings",
  ".config/git/credentials",
  ".config/rclone",
  ".config/sops",
  ".config/google-chrome",
  ".config/chromium",
  ".mozilla/firefox",
  ".cargo/credentials",
  ".gem/credentials",
  ".m2/settings.xml",
  ".gradle/gradle.properties",
  "library/keychains",
  "run/secrets",
  "etc/ssl/private",
];
const rawMemory =
  /^\/dev\/(mem|kmem|port|sd[a-z]|hd[a-z]|vd[a-z]|xvd|nvme|mmcblk|dm-|mapper\/)|^\/proc\/kcore$/;
const processSecrets = /^\/proc\/[^/]+\/(environ|mem|maps|fd|root|cwd|task)(\/|$)/;
/** Names that a pattern may match, for {@link checkPattern}: those that begin with a dot, and the others. */
const secretSamples = [
  ".env .env.local .envrc .netrc .npmrc .pgpass .git-credentials .ssh .aws .gnupg .kube .docker .agentd",
  "id_rsa id_ed25519 id_ecdsa",
].map((names) => names.split(" ")) as [string[], string[]];

const startUpNames =
  /^\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|cshrc|tcshrc|kshrc|inputrc|gitconfig|vimrc|xprofile|xinitrc|wgetrc|curlrc|condarc)$/;
/** Files that control agents, editors, hooks and pipelines, at any depth, in lower case. */
const obeyedNames = new Set(
  (
    "agents.md agents.override.md claude.md claude.local.md gemini.md skill.md .cursorrules .windsurfrules .clinerules .aider.conf.yml " +
    ".mcp.json copilot-instructions.md .gitlab-ci.yml jenkinsfile .travis.yml azure-pipelines.yml .drone.yml " +
    "bitbucket-pipelines.yml .pre-commit-config.yaml lefthook.yml .lefthook.yml .yarnrc .yarnrc.yml .pnpmfile.cjs bunfig.toml " +
    "rust-toolchain rust-toolchain.toml .pam_environment .mise.toml mise.toml .tool-versions pip.conf .gitmodules .lesskey .exrc .nvimrc .gdbinit .curlrc .wgetrc"
  ).split(" "),
);
const obeyedFolders = new Set(
  ".agents .claude .cursor .gemini .codex .vscode .idea .devcontainer .husky .circleci .direnv .zed .fleet".split(
    " ",
  ),
);
const obeyedFolderPairs = [
  ".github/workflows",
  ".github/actions",
  ".git/hooks",
  ".git/config",
  ".git/info",
  ".cargo/config.toml",
  ".cargo/config",
  "library/launchagents",
  "library/launchdaemons",
  ".local/share/systemd",
];
/** What the machine reads when it starts, when a user signs in, and at set times. */
const startUpPaths =
  /^\/(private\/)?(etc\/(systemd|cron|anacrontab|init|rc|profile|bash|zsh|csh|fish|environment|sudoers|ld\.so|pam|security|xdg|udev|modprobe|apt|ssh|gitconfig|inetd|xinetd|at\.)|var\/spool\/(cron|anacron|at)|var\/at\/|(usr\/)?lib\/systemd|lib\/udev)/;
/** Folders in which shells look for programs. A program there replaces another of its name in all later commands. */
const programFolder =
  /^((\/usr(\/local)?|\/opt\/(homebrew|local))?\/s?bin|~\/(\.local\/bin|bin|\.cargo\/bin|go\/bin|\.deno\/bin|\.bun\/bin|\.npm-global\/bin))(\/|$)/;
const obeyedSamples = [...obeyedNames, ...obeyedFolders, ".git", ".github", "config.yaml", "state.db"];

const harmlessDevices = new Set(["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"]);
const blockDevice =
  /^\/dev\/(sd|hd|vd|xvd|nvme|mmcblk|disk|r?disk\d|mapper\/|dm-|md|loop|sr|zram|mem$|kmem$|port$)/;
const systemFolder =
  /^\/(bin|boot|dev|etc|home|lib\w*|proc|root|run|sbin|sys|usr|var|Users|System|Library|Applications)$/;
const temporaryFolders = ["/tmp", "/var/tmp", "/private/tmp", "/var/folders"];

/** Checks reading the absolute `path`. */
export function checkRead(path: string, paths: PolicyPaths): Finding | undefined {
  if (agentHomesOf(paths).some((home) => path === `${home}/.env` || path.startsWith(`${home}/.env.`)))
    return deny(`${path} holds the agent's own keys`);
  const reason = secretReason(path, paths);
  return reason === undefined ? undefined : ask(reason, path, "sensitive");
}

/** Checks writing the absolute `path`. */
export function checkWrite(path: string, paths: PolicyPaths): Finding | undefined {
  if (blockDevice.test(path)) return deny(`writing to ${path} would overwrite a disk or the memory`);
  if (/^\/dev\/(tcp|udp)\//.test(path)) return ask("it opens a network connection", path, "outward");
  if (harmlessDevices.has(path) || path.startsWith("/dev/fd/")) return undefined;
  const secret = checkRead(path, paths);
  if (secret?.outcome === "deny") return secret;
  if (isOfAgent(path, paths))
    return ask(
      `${path} belongs to agentd itself, and changing it may change what the agent may do`,
      path,
      "own",
    );
  if (secret) return secret;
  const reason = obeyedReason(path, paths);
  if (reason !== undefined) return ask(reason, path, "steering");
  const isFree = isInside(path, paths) || temporaryFolders.some((folder) => isWithin(path, folder));
  return isFree ? undefined : ask(`${path} is outside the workspace`, path, "outside");
}

/** Returns why reading `path` requires approval; undefined when it does not. */
export function secretReason(
  path: string,
  paths: Pick<PolicyPaths, "home" | "agentHome"> & Partial<PolicyPaths>,
): string | undefined {
  if (isOfAgent(path, paths)) return `${path} belongs to the agent's own home`;
  const lower = path.toLowerCase();
  const segments = lower.split("/");
  const name = segments.at(-1) ?? "";
  if (secretNames.some((pattern) => pattern.test(name))) return `${path} may hold secrets`;
  const inFolder = segments.some((segment) => secretFolders.has(segment));
  if (inFolder || secretFolderPairs.some((pair) => `${lower}/`.includes(`/${pair}/`)))
    return `${path} may hold secrets`;
  if (processSecrets.test(lower)) return `${path} shows another process's secrets`;
  if (rawMemory.test(lower)) return `${path} is a whole disk or the memory`;
  return undefined;
}

function obeyedReason(path: string, { home }: PolicyPaths): string | undefined {
  const lower = path.toLowerCase();
  const segments = lower.split("/");
  const name = segments.at(-1) ?? "";
  if (startUpNames.test(name)) return `${path} runs when a shell or a tool starts`;
  if (startUpPaths.test(lower)) return `${path} runs when the machine starts, at sign-in or at set times`;
  const fromHome = isWithin(path, home) ? `~${path.slice(home.length)}` : path;
  if (programFolder.test(fromHome)) return `${path} is where shells look for programs`;
  if (isWithin(path, `${home}/.config`)) return `${path} changes the user's settings`;
  if (/\/\.git\/(hooks|config|info)(\/|$)/.test(lower)) return `${path} changes what git runs`;
  const isObeyed =
    obeyedNames.has(name) ||
    segments.some((segment) => obeyedFolders.has(segment)) ||
    obeyedFolderPairs.some((pair) => `${lower}/`.includes(`/${pair}/`));
  return isObeyed ? `${path} controls later sessions, editors, hooks or pipelines` : undefined;
}

/** Returns whether deleting the tree `path` can never be intended. */
export function isVital(path: string, { home, agentHome }: PolicyPaths): boolean {
  return isWithin(home, path) || isWithin(agentHome, path) || systemFolder.test(path);
}

/** Returns whether `path` is in the workspace or one of its further roots. */
export function isInside(path: string, { workspace, roots = [] }: PolicyPaths): boolean {
  return [workspace, ...roots].some((folder) => isWithin(path, folder));
}

/** Returns the area of a path for signatures: one grant covers the workspace, but every other path separately. */
export function areaOf(path: string, { workspace, roots = [] }: PolicyPaths): string {
  if (path === workspace) return "the whole workspace";
  if (isWithin(path, workspace)) return "in the workspace";
  const root = roots.find((folder) => path !== folder && isWithin(path, folder));
  return root === undefined ? path : `in ${root}`;
}

/** Checks reading the paths that one word of a command may name, seen from each of `folders`. */
export function checkField(
  field: string,
  folders: readonly string[],
  paths: PolicyPaths,
): Finding | undefined {
  if (field === "" || field.length > MAX_FIELD_CHARACTERS) return undefined;
  if (/^\/dev\/(tcp|udp)\//.test(field)) return ask("it opens a network connection", field, "outward");
  if (/\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b/.test(field))
    return ask("it asks the cloud for the machine's credentials", field, "sensitive");
  const pieces = /\s/.test(field) ? [field] : [field, ...field.split(/[=:@,]/), field.replace(/^-\w/, "")];
  const candidates = [...new Set(pieces)].filter((piece) => piece !== "");
  if (candidates.length > MAX_PIECES)
    return ask("a word has too many parts to be checked", field, "unchecked");
  const found = candidates.flatMap((piece) =>
    folders.flatMap((folder) => checkPiece(joinPath(folder, expandTilde(piece, paths)), paths) ?? []),
  );
  return found.find((finding) => finding.outcome === "deny") ?? found[0];
}

function checkPiece(path: string, paths: PolicyPaths): Finding | undefined {
  const known = checkRead(path.replaceAll(ANY, ""), paths);
  if (known) return known;
  return path.includes(NAME) || path.includes(BELOW) ? checkPattern(path, paths) : undefined;
}

/** Checks reading the whole trees that a word may name. */
export function checkTree(
  field: string,
  folders: readonly string[],
  paths: PolicyPaths,
): Finding | undefined {
  const word = expandTilde(field, paths);
  for (const folder of folders) {
    const finding = word.includes(ANY)
      ? undefined
      : checkPattern(`${joinPath(folder, word)}/${BELOW}`, paths);
    if (finding) return finding;
  }
  return undefined;
}

/** Checks a pattern that covers the home, or may match a secret: `~/*`, `.e*`, `~/.ss?/id*`. */
function checkPattern(path: string, paths: PolicyPaths): Finding | undefined {
  const first = path.split(new RegExp(`[${NAME}${BELOW}]`))[0] ?? "";
  const folder = joinPath("/", first.slice(0, first.lastIndexOf("/") + 1));
  const own = checkRead(folder, paths);
  if (own) return own;
  const reason = `${shown(path)} covers the whole home, or the agent's own, and the secrets in it`;
  if (takesIn(folder, path, paths)) return ask(reason, path, "sensitive");
  const segments = path.split("/");
  const secretIn = agentHomesOf(paths).find(
    (home) => !isWithin(folder, home) && matchesStart(segments, home.split("/")),
  );
  if (secretIn !== undefined) return ask(`${shown(path)} may lead into ${secretIn}`, path, "sensitive");
  const mayMatchSecrets = segments.some((segment) => isPattern(segment) && mayBeSecret(segment, folder));
  return mayMatchSecrets ? ask(`${shown(path)} may match files with secrets`, path, "sensitive") : undefined;
}

const isPattern = (segment: string): boolean => segment.includes(NAME) || segment.includes(BELOW);

/** Returns whether a pattern reads files of the home itself, or of folders above it, outside the workspace. */
function takesIn(folder: string, path: string, paths: PolicyPaths): boolean {
  const isDeep = path.includes(BELOW);
  if (agentHomesOf(paths).some((home) => isDeep && isWithin(home, folder) && !isWithin(folder, home)))
    return true;
  if (isDeep && isWithin("/etc", folder)) return true;
  return (
    isWithin(paths.home, folder) &&
    !isWithin(paths.home, paths.workspace) &&
    (isDeep || folder === paths.home)
  );
}

function mayBeSecret(segment: string, folder: string): boolean {
  if (/\.(pem|key|p12|pfx)$/.test(segment)) return true;
  const [dotted, plain] = secretSamples;
  const literal = segment.replaceAll(NAME, "").replaceAll(BELOW, "");
  if (segment.startsWith(".")) return dotted.some((name) => nameMatches(segment, name));
  const isSystem = /^\/(etc|proc)(\/|$)/.test(folder);
  if (literal.length < (isSystem ? 1 : 2)) return false;
  const names = folder.startsWith("/proc")
    ? ["environ", "mem", "maps", "fd", "root", "cwd", "task"]
    : ["shadow", "gshadow", "sudoers"];
  return [...plain, ...(isSystem ? names : [])].some((name) => nameMatches(segment, name));
}

/** Returns whether the segments of a pattern lead to `path` or below it. */
function matchesStart(pattern: readonly string[], path: readonly string[]): boolean {
  if (pattern.length < path.length) return false;
  return path.every((segment, index) => nameMatches(pattern[index] ?? "", segment));
}

/** Checks writing the paths that a word may name, seen from each of `folders`. */
export function checkWrites(
  field: string,
  folders: readonly string[],
  paths: PolicyPaths,
): readonly Finding[] {
  const known = expandTilde(field, paths).replaceAll(ANY, "");
  return folders.flatMap((folder) => {
    const path = joinPath(folder, known);
    if (!isPattern(path)) return checkWrite(path, paths) ?? [];
    const start = joinPath("/", path.split(new RegExp(`[^/]*[${NAME}${BELOW}]`))[0] ?? "");
    const name = (path.split("/").at(-1) ?? "").toLowerCase();
    const isObeyed = obeyedSamples.some((sample) => nameMatches(name, sample));
    const finding = isObeyed
      ? ask(
          `${shown(path)} may match files that control later sessions, editors, hooks or pipelines`,
          path,
          "steering",
        )
      : checkPattern(path, paths);
    return checkWrite(start, paths) ?? finding ?? [];
  });
}

/** Returns a word for people, with its marks as shell patterns. */
function shown(field: string): string {
  return field.replaceAll(BELOW, "**").replaceAll(NAME, "*").replaceAll(ANY, "?");
}

const expandTilde = (word: string, { home }: PolicyPaths): string =>
  /^~(\/|$)/.test(word) ? home + word.slice(1) : word;

/** Returns whether `path` is `folder` or inside it. */
export function isWithin(path: string, folder: string): boolean {
  if (folder === "/") return path.startsWith("/");
  return path === folder || path.startsWith(`${folder}/`);
}

/** Returns `path` relative to `folder` as an absolute path without `.`, `..` and a trailing slash. */
export function joinPath(folder: string, path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${folder}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

type Homes = Pick<PolicyPaths, "home" | "agentHome"> & Partial<PolicyPaths>;

/** Returns the homes of the running service, of a plain start, and the parent home of a profile. */
function agentHomesOf({ home, agentHome }: Homes): readonly string[] {
  const base = /^(.+)\/profiles\/[^/]+$/.exec(agentHome)?.[1];
  return [...new Set([agentHome, joinPath(home, ".agentd"), ...(base === undefined ? [] : [base])])];
}

function isOfAgent(path: string, paths: Homes): boolean {
  const { workspace, agentHome } = paths;
  if (!agentHomesOf(paths).some((home) => isWithin(path, home))) return false;
  // The default workspace of a new home is not the service's own.
  if (isWithin(path, `${agentHome}/workspace`)) return false;
  const worksInside = workspace !== undefined && workspace !== agentHome && isWithin(workspace, agentHome);
  return !(worksInside && isWithin(path, workspace));
}
