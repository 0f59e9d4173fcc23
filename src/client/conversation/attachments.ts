/** Images and dropped files for the next prompt. The gateway keeps them; the state only names them. */
import { cleanLine } from "./clean-text.ts";
import { reasonOf, type GatewayCall } from "./gateway.ts";
import { fillComposer, notice } from "./items.ts";
import type { WritableStore } from "./state.ts";

interface AttachmentsOptions {
  readonly call: GatewayCall;
  readonly store: WritableStore;
}

/** Most images of one drop. */
const MAX_DROPPED = 20;
const MAX_NAME = 120;

export class Attachments {
  readonly #options: AttachmentsOptions;
  /** Pasted texts whose images are attached: a prompt that was sent too early still contains them. */
  #taken: readonly string[] = [];

  constructor(options: AttachmentsOptions) {
    this.#options = options;
  }

  /** Attaches the images whose paths were pasted. A text that names no image stays in the composer. */
  async drop(pasted: string): Promise<void> {
    let rest = pasted.trim();
    let count = 0;
    while (looksLikeImagePath(rest) && count < MAX_DROPPED) {
      const remainder = await this.#attachPath(rest).catch(() => undefined);
      if (remainder === undefined) break;
      count++;
      rest = remainder.trim();
    }
    if (count === 0) return;
    this.#taken = [...this.#taken, pasted.trim()].slice(-MAX_DROPPED);
    this.#options.store.update((state) => fillComposer(state, { text: rest, replaces: pasted.trim() }));
  }

  /** Attaches the image at a typed path. Returns the text after the path. */
  async attach(path: string): Promise<string> {
    return (await this.#attachPath(path)).trim();
  }

  /** Attaches the image in the clipboard. */
  async paste(): Promise<void> {
    const { attached, path, name, message } = await this.#options.call("clipboard.paste", this.#session());
    if (attached && path !== undefined) return this.#add(path, name ?? path);
    const why = cleanLine(message ?? "The clipboard holds no image.");
    this.#options.store.update((state) => notice(state, "warning", `${why} /image PATH attaches a file.`));
  }

  /** Removes the last image. */
  async detach(): Promise<void> {
    const last = this.#options.store.get().composer.attachments.at(-1);
    if (last === undefined) return;
    await this.#options.call("image.detach", { ...this.#session(), path: last.path });
    this.#taken = [];
    this.#show((attachments) => attachments.filter((each) => each !== last));
  }

  /**
   * Returns the prompt to send: without paths whose images are attached, and with a dropped file at its start named as
   * such.
   */
  async promptOf(text: string): Promise<string> {
    const typed = this.#taken.reduce((rest, taken) => rest.replace(taken, ""), text);
    const { attachments } = this.#options.store.get().composer;
    if (typed.trim() === "")
      return attachments.map(({ name }) => `[User attached image: ${name}]`).join("\n");
    if (!looksLikePath(typed)) return typed;
    const params = { ...this.#session(), text: typed };
    // Detection is a courtesy: on any failure the text is sent as it was typed.
    const dropped = await this.#options.call("input.detect_drop", params).catch(() => undefined);
    if (dropped?.matched !== true || dropped.text === undefined) return typed;
    if (dropped.is_image === true) this.#add(dropped.path ?? "", dropped.name ?? "");
    return dropped.text;
  }

  /** Call when the gateway has taken the images with a prompt. */
  sent(): void {
    this.#taken = [];
    const { attachments } = this.#options.store.get().composer;
    if (attachments.length === 0) return;
    this.#show(() => []);
    const names = attachments.map(({ name }) => name).join(", ");
    this.#options.store.update((state) => notice(state, "info", `Sent with ${names}`));
  }

  async #attachPath(path: string): Promise<string> {
    try {
      const attached = await this.#options.call("image.attach", { ...this.#session(), path });
      this.#add(attached.path ?? path, attached.name ?? path);
      return attached.remainder ?? "";
    } catch (error) {
      if (reasonOf(error) !== "not_found_or_unsupported") throw error;
      throw new Error(`Cannot attach ${cleanLine(path)}: it is not an image that the gateway can read.`, {
        cause: error,
      });
    }
  }

  #add(path: string, name: string): void {
    this.#show((attachments) => [...attachments, { path, name: cleanLine(name, MAX_NAME) }]);
  }

  #show(change: (attachments: readonly Attachment[]) => readonly Attachment[]): void {
    this.#options.store.update((state) => ({
      ...state,
      composer: { ...state.composer, attachments: change(state.composer.attachments) },
    }));
  }

  #session(): { readonly session_id: string } {
    const { session } = this.#options.store.get();
    if (session === undefined) throw new Error("No session is open. /new creates one.");
    return { session_id: session.id };
  }
}

interface Attachment {
  readonly path: string;
  readonly name: string;
}

const PATH = /^\s*["']?(?:file:\/\/|~?\/|\.{1,2}\/|[A-Za-z]:[\\/])/;
const IMAGE = /\.(?:png|jpe?g|gif|webp|bmp|tiff?|heic|avif)(?:["']|\s|$)/i;
const MAX_PATH = 4_096;

/** Returns whether the text begins with a path, as terminals paste a dropped file. */
function looksLikePath(text: string): boolean {
  return PATH.test(text);
}

/** Returns whether the text begins with the path of an image. */
export function looksLikeImagePath(text: string): boolean {
  return text.length <= MAX_PATH && looksLikePath(text) && IMAGE.test(text) && !text.trim().includes("\n");
}
