/** Files, folders and changes that a prompt refers to. Touches the machine, and only reads. */
import { execFile } from "node:child_process";
import { opendir, realpath, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import process from "node:process";
import { readAttachment, type AttachmentOptions } from "../../agent/attachments/attachment.ts";
import type { Attachment } from "../../agent/engine.ts";
import { ServiceError } from "../../base/errors.ts";
import { headOf, isInside } from "../../base/text.ts";

export interface ReferenceOptions extends Pick<AttachmentOptions, "cwd" | "roots" | "refuse"> {
  readonly userHome: string;
  /** Folder of the texts that `paste.collapse` stored. */
  readonly pasteFolder: string;
  readonly signal: AbortSignal;
}

interface References {
  readonly attachments: readonly Attachment[];
  /** One line for each reference that cannot be read. */
  readonly problems: readonly string[];
}

const MAX_REFERENCES = 32;
const MAX_ENTRIES = 500;
const MAX_DIFF_BYTES = 524_288;
const GIT_TIMEOUT_MS = 10_000;

const MAX_COMMITS = 50;

/** `@file:path`, `@file:"a path"`, `@file:path:10-20`, `@folder:path`, `@diff`, `@staged`, `@git:5`, and collapsed pastes. */
const REFERENCE =
  /(?<![\w@])@(?:(?<kind>file|folder):(?:"(?<quoted>[^"\n]+)"|(?<plain>[^\s"]+))|(?<change>diff|staged)\b|git:(?<commits>\d{1,4})\b)|\[Pasted text #\d+: \d+ lines → (?<paste>[^\]\n]+)\]/g;

/** Reads what a prompt refers to, each once. A reference that cannot be read stays text, and becomes a problem. */
export async function readReferences(text: string, options: ReferenceOptions): Promise<References> {
  const attachments: Attachment[] = [];
  const problems: string[] = [];
  const matches = new Map([...text.matchAll(REFERENCE)].map((match) => [match[0], match.groups ?? {}]));
  for (const [written, groups] of [...matches].slice(0, MAX_REFERENCES)) {
    try {
      attachments.push(await read(groups, options));
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      problems.push(`${headOf(written, 160)} is not attached: ${error.message}`);
    }
  }
  if (matches.size > MAX_REFERENCES) {
    problems.push(`Only the first ${MAX_REFERENCES} of ${matches.size} references are attached.`);
  }
  return { attachments, problems };
}

type Groups = Readonly<Record<string, string | undefined>>;

function read(
  { kind, quoted, plain, change, commits, paste }: Groups,
  options: ReferenceOptions,
): Promise<Attachment> {
  if (commits !== undefined) return readCommits(Number(commits), options);
  if (change !== undefined) return readChanges(change, options);
  if (paste !== undefined) return readPaste(paste, options);
  const path = quoted ?? plain ?? "";
  return kind === "folder" ? readFolder(path, options) : readFile(path, options);
}

/** Punctuation may follow a path in a sentence. */
const withoutPunctuation = (path: string): string => path.replace(/(?<=[^./])[.,;:!?)\]}'"]+$/, "");

async function readFile(path: string, options: ReferenceOptions): Promise<Attachment> {
  const bare = withoutPunctuation(path);
  const [, ranged = bare, first, last = first] = /^(.+?):(\d+)(?:-(\d+))?$/.exec(bare) ?? [];
  const sources = [...new Set([path, bare, ranged])];
  let failure: unknown;
  for (const source of sources) {
    try {
      const { attachment } = await readAttachment(expanded(source, options), options);
      const isPart = source === ranged && source !== bare && first !== undefined;
      return isPart
        ? linesOf(attachment, { path: source, first: Number(first), last: Number(last) })
        : { ...attachment, name: source };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

function linesOf(
  attachment: Attachment,
  { path, first, last }: { readonly path: string; readonly first: number; readonly last: number },
): Attachment {
  if (attachment.mediaType !== "text/plain") return { ...attachment, name: path };
  const lines = Buffer.from(attachment.data, "base64").toString().split("\n");
  const part = lines.slice(Math.max(0, first - 1), last).join("\n");
  if (part === "") throw unread(`the file has ${lines.length} lines.`);
  return textFile(`${path}:${first}-${last}`, part);
}

async function readFolder(written: string, options: ReferenceOptions): Promise<Attachment> {
  const path = withoutPunctuation(written);
  const folder = await realpath(resolve(options.cwd, expanded(path, options))).catch(() => undefined);
  const roots = await Promise.all(options.roots.map((root) => realpath(root).catch(() => root)));
  if (folder === undefined || !roots.some((root) => isInside(folder, root)))
    throw unread("no such folder exists in the folders of this session.");
  const reason = options.refuse?.(folder);
  if (reason !== undefined) throw unread(`${reason}.`);
  if (!(await stat(folder)).isDirectory()) throw unread("it is not a folder.");
  const names: string[] = [];
  for await (const entry of await opendir(folder)) {
    names.push(entry.isDirectory() ? `${entry.name}/` : entry.name);
    if (names.length > MAX_ENTRIES) break;
  }
  const shown = names.slice(0, MAX_ENTRIES).toSorted();
  const rest = names.length > MAX_ENTRIES ? ["..."] : [];
  return textFile(path, shown.length === 0 ? "(empty)" : [...shown, ...rest].join("\n"));
}

async function readChanges(change: string, { cwd, signal }: ReferenceOptions): Promise<Attachment> {
  const which = change === "staged" ? ["--staged"] : [];
  const diff = await git(["diff", ...PLAIN_DIFF, ...which], cwd, signal);
  if (diff === undefined) throw unread("the folder of the session has no readable git repository.");
  if (diff === "") throw unread("no changes exist.");
  return textFile(`git diff${change === "staged" ? " --staged" : ""}`, headOf(diff, MAX_DIFF_BYTES));
}

/** Reads the newest commits with their changes. */
async function readCommits(count: number, { cwd, signal }: ReferenceOptions): Promise<Attachment> {
  if (count < 1 || count > MAX_COMMITS) throw unread(`name 1 to ${MAX_COMMITS} commits, such as @git:3.`);
  const log = await git(["log", `-${count}`, "--patch", ...PLAIN_DIFF], cwd, signal);
  if (log === undefined) throw unread("the folder of the session has no git repository with commits.");
  return textFile(`git log -${count} --patch`, headOf(log, MAX_DIFF_BYTES));
}

/** A repository's own configuration must not start programs. */
const PLAIN_DIFF = ["--no-color", "--no-ext-diff", "--no-textconv"];
const SAFE_GIT = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false"].flatMap(
  (setting) => ["-c", setting],
);

function git(args: readonly string[], cwd: string, signal: AbortSignal): Promise<string | undefined> {
  // What a partial clone lacks is fetched by a program that it names.
  const env = { ...process.env, GIT_NO_LAZY_FETCH: "1" };
  const options = { cwd, signal, env, timeout: GIT_TIMEOUT_MS, maxBuffer: 8 * MAX_DIFF_BYTES };
  return new Promise((done) => {
    execFile("git", [...SAFE_GIT, ...args], options, (error, stdout) => done(error ? undefined : stdout));
  });
}

/** Reads a stored paste. Its random name is the permission to read it. */
async function readPaste(path: string, { pasteFolder }: ReferenceOptions): Promise<Attachment> {
  const name = basename(path);
  const file = join(pasteFolder, name);
  if (file !== resolve(path) || !PASTE_NAME.test(name)) throw unread("it is not a stored paste.");
  const { attachment } = await readAttachment(file, {
    cwd: pasteFolder,
    roots: [pasteFolder],
    maxFileBytes: MAX_PASTE_BYTES,
  });
  return { ...attachment, name: "Pasted text" };
}

const PASTE_NAME = /^paste_[0-9a-z]{26}\.txt$/;
export const MAX_PASTE_BYTES = 4_194_304;

function expanded(path: string, { userHome }: ReferenceOptions): string {
  return path.startsWith("~/") ? join(userHome, path.slice(2)) : path;
}

function textFile(name: string, text: string): Attachment {
  return { type: "file", mediaType: "text/plain", name, data: Buffer.from(text).toString("base64") };
}

const unread = (why: string) => new ServiceError("not_found_or_unsupported", why);
