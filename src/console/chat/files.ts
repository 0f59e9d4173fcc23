/** Files that people choose for a prompt: read, checked by their content, and made data URLs. */
import type { PromptFile } from "../../client/conversation/actions.ts";
import { bytes } from "../ui/format.ts";

/** What the server accepts, and what one message to it can carry. */
const MAX_IMAGE_BYTES = 10_485_760;
const MAX_TEXT_BYTES = 524_288;
const MAX_TOTAL_BYTES = 11_534_336;
const MAX_FILES = 32;

interface ReadFiles {
  readonly files: readonly PromptFile[];
  /** What is wrong with the others, a sentence each. */
  readonly problems: readonly string[];
}

/** Reads files for a prompt that has `before` already. */
export async function readFiles(chosen: readonly File[], before: readonly PromptFile[]): Promise<ReadFiles> {
  const files: PromptFile[] = [];
  const problems: string[] = [];
  for (const file of chosen) {
    const name = file.name || "picture.png";
    const total = [...before, ...files].reduce((sum, each) => sum + each.bytes, file.size);
    const problem =
      before.length + files.length >= MAX_FILES
        ? `${name} was not attached: a message may have at most ${MAX_FILES} files.`
        : await problemOf(file, name, total);
    if (problem === undefined) files.push(await toPromptFile(file, name));
    else problems.push(problem);
  }
  return { files, problems };
}

async function problemOf(file: File, name: string, total: number): Promise<string | undefined> {
  if (file.size === 0) return `${name} is empty.`;
  const kind = await kindOf(file);
  if (kind === undefined) return `${name} is not text, a PDF, or a PNG, JPEG, GIF or WebP picture.`;
  const limit = kind === "text" ? MAX_TEXT_BYTES : MAX_IMAGE_BYTES;
  const what = { text: "a text file", pdf: "a PDF", image: "a picture" }[kind];
  if (file.size > limit) return `${name} has ${bytes(file.size)}: ${what} may have at most ${bytes(limit)}.`;
  if (total <= MAX_TOTAL_BYTES) return undefined;
  return `${name} was not attached: the files of a message may have at most ${bytes(MAX_TOTAL_BYTES)} together.`;
}

type Kind = "image" | "pdf" | "text";

const MAGIC: readonly (readonly [RegExp, Kind])[] = [
  [/^\x89PNG\r\n/, "image"],
  [/^\xff\xd8\xff/, "image"],
  [/^GIF8[79]a/, "image"],
  [/^RIFF[^]{4}WEBP/, "image"],
  [/^%PDF-/, "pdf"],
];
const HEAD_BYTES = 16;

/** The content decides, as it does on the server. */
async function kindOf(file: File): Promise<Kind | undefined> {
  const head = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
  const text = String.fromCharCode(...head);
  const found = MAGIC.find(([pattern]) => pattern.test(text))?.[1];
  if (found) return found;
  // A long text is refused for its size, so its start is enough.
  const start = new Uint8Array(await file.slice(0, MAX_TEXT_BYTES).arrayBuffer());
  if (start.includes(0)) return undefined;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(start, { stream: true });
    return "text";
  } catch {
    return undefined;
  }
}

async function toPromptFile(file: File, name: string): Promise<PromptFile> {
  const kind = (await kindOf(file)) === "image" ? "image" : "file";
  return { name, kind, bytes: file.size, url: await dataUrlOf(file) };
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => reject(reader.error ?? new Error(`${file.name} cannot be read.`)));
    reader.readAsDataURL(file);
  });
}
