import { isWithin, joinPath, secretReason, startUpReason } from "./sensitive-path.ts";
import type { Risk } from "./risk.ts";
import type { Word } from "./shell-word.ts";

/** Absolute paths without `.` and `..`. */
export interface Places {
  readonly workspace: string;
  /** Folders where work is done beside it. */
  readonly roots?: readonly string[];
  readonly home: string;
  readonly agentHome: string;
}

/** Something the policy minds. `shape` is what an answer for the session covers besides the command's name. */
export interface Finding {
  readonly verdict: "ask" | "deny";
  readonly reason: string;
  readonly shape: string;
  readonly risk: Risk;
}

const MAX_PIECES = 32;
const harmlessDevices = new Set(["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"]);
const blockDevice =
  /^\/dev\/(sd|hd|vd|xvd|nvme|mmcblk|disk|r?disk\d|mapper\/|dm-|md|loop|sr|zram|mem$|kmem$|port$)/;
const systemFolder =
  /^\/(bin|boot|dev|etc|home|lib\w*|proc|root|run|sbin|sys|usr|var|Users|System|Library|Applications)$/;
const dottedNames = [
  ".env",
  ".env.local",
  ".envrc",
  ".netrc",
  ".npmrc",
  ".pgpass",
  ".git-credentials",
  ".ssh",
  ".aws",
  ".gnupg",
  ".kube",
  ".docker",
];
const plainNames = ["id_rsa", "id_ed25519", "id_ecdsa"];
const processNames = ["environ", "mem", "maps", "fd", "root", "cwd", "task"];
const systemNames = ["shadow", "gshadow", "sudoers"];

/** A question. Without a `risk` it is one that leave is never kept for. */
export const ask = (reason: string, shape: string, risk: Risk = "unclear"): Finding => ({
  verdict: "ask",
  reason,
  shape,
  risk,
});
export const deny = (reason: string): Finding => ({
  verdict: "deny",
  reason,
  shape: "never",
  risk: "destructive",
});

/** What there is to say against reading the absolute `path`. */
export function judgeRead(path: string, places: Places): Finding | undefined {
  const isOwnSecret = path === `${places.agentHome}/.env` || path.startsWith(`${places.agentHome}/.env.`);
  if (isOwnSecret) return deny(`${path} holds the agent's own keys`);
  const reason = secretReason(path, places);
  return reason === undefined ? undefined : ask(reason, path, "sensitive");
}

/** What there is to say against writing the absolute `path`. */
export function judgeWrite(path: string, places: Places): Finding | undefined {
  if (blockDevice.test(path)) return deny(`writing to ${path} would overwrite a disk or the memory`);
  if (harmlessDevices.has(path) || path.startsWith("/dev/fd/")) return undefined;
  const secret = judgeRead(path, places);
  if (secret) return secret;
  const reason = startUpReason(path, places);
  if (reason !== undefined) return ask(reason, path, "sensitive");
  if (isInside(path, places) || isWithin(path, "/tmp")) return undefined;
  return ask(`${path} is outside the workspace`, path, "outside");
}

/** Whether deleting `path` with all below it can never be meant. */
export function isVital(path: string, { home, agentHome }: Places): boolean {
  return isWithin(home, path) || isWithin(agentHome, path) || systemFolder.test(path);
}

/** Whether `path` is where work is done: the workspace, and the roots beside it. */
export function isInside(path: string, { workspace, roots = [] }: Places): boolean {
  return [workspace, ...roots].some((folder) => isWithin(path, folder));
}

/** The kind of place a path is in, for signatures: one answer covers the workspace, but each other place apart. */
export function placeOf(path: string, { workspace, roots = [] }: Places): string {
  if (path === workspace) return "the whole workspace";
  if (isWithin(path, workspace)) return "in the workspace";
  const root = roots.find((folder) => path !== folder && isWithin(path, folder));
  return root === undefined ? path : `in ${root}`;
}

/** What there is to say against the paths that one word of a command may mean, seen from each of `folders`. */
export function judgeWord(word: Word, folders: readonly string[], places: Places): Finding | undefined {
  if (word.text === "" || word.text.length > 4_096) return undefined;
  if (/^\/dev\/(tcp|udp)\//.test(word.text))
    return ask("it opens a network connection", word.text, "outward");
  if (/\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b/.test(word.text))
    return ask("it asks the cloud for the machine's credentials", word.text, "sensitive");
  if (word.dynamic && /^\/proc\/.*(environ|mem|maps|fd|root|cwd|task)/.test(word.text))
    return ask("it shows another process's secrets", word.text, "sensitive");
  if (word.dynamic && word.text.includes("{")) {
    for (const text of expandBraces(word.text).filter((part) => part !== word.text)) {
      const finding = judgeWord({ ...word, text, dynamic: false }, folders, places);
      if (finding) return finding;
    }
  }
  const pieces = /\s/.test(word.text)
    ? [word.text]
    : [word.text, ...word.text.split(/[=:@,]/), word.text.replace(/^-\w/, "")];
  const candidates = [...new Set(pieces)].filter((piece) => piece !== "");
  if (candidates.length > MAX_PIECES) return ask("a word has too many parts to be checked", word.text);
  const found = candidates.flatMap((piece) =>
    folders.flatMap((folder) => judgeRead(joinPath(folder, tilde(piece, places)), places) ?? []),
  );
  const worst = found.find((finding) => finding.verdict === "deny") ?? found[0];
  if (worst) return worst;
  return word.glob ? judgeGlob(word.text) : undefined;
}

const tilde = (piece: string, { home }: Places): string =>
  /^~(\/|$)/.test(piece) ? home + piece.slice(1) : piece;

/** A pattern that begins like a secret's name may match one: `.e*`, `~/.ss?/id*`. */
function judgeGlob(text: string): Finding | undefined {
  for (const segment of text.split("/").filter((part) => /[*?[]/.test(part))) {
    const isDotted = segment.startsWith(".");
    const names = isDotted ? dottedNames : [...plainNames, ...namesUnder(text)];
    const literal = segment.replace(/\[[^\]]*\]|[*?]/g, "");
    const isTelling = isDotted || literal.length >= (/^\/(etc|proc)\//.test(text) ? 1 : 2);
    const pattern = toPattern(segment);
    if (/\.(pem|key|p12|pfx)$/.test(segment) || (isTelling && names.some((name) => pattern.test(name)))) {
      return ask(`${text} may match files with secrets`, text, "sensitive");
    }
  }
  return undefined;
}

function namesUnder(text: string): readonly string[] {
  if (text.startsWith("/etc/")) return systemNames;
  return text.startsWith("/proc/") ? processNames : [];
}

/** The first few words that a brace expansion makes. */
function expandBraces(text: string): readonly string[] {
  const match = /^([^{}]*)\{([^{}]*,[^{}]*)\}(.*)$/s.exec(text);
  if (!match) return [text];
  const [, before = "", choices = "", after = ""] = match;
  return choices
    .split(",")
    .slice(0, MAX_PIECES)
    .map((choice) => `${before}${choice}${after.replace(/[{}]/g, "")}`);
}

function toPattern(segment: string): RegExp {
  const source = segment
    .slice(0, 200)
    .replace(/[.+^${}()|\\]/g, "\\$&")
    .replace(/\[[^\]]*\]/g, ".")
    .replace(/\[/g, "\\[")
    .replace(/\*+/g, "[^/]*")
    .replaceAll("?", "[^/]");
  return new RegExp(`^${source}$`);
}
