import {
  literalDocument,
  slice,
  type Block,
  type MarkdownDocument,
  type Piece,
} from "../markdown/document.ts";
import { renderHtml } from "../markdown/html.ts";
import { renderSlack, renderWhatsApp } from "../markdown/marks.ts";
import { renderPlain, renderSignal } from "../markdown/plain.ts";
import { findFences, outsideFenceLines, sourceBetween } from "../markdown/source.ts";
import { renderTelegram } from "../markdown/telegram.ts";
import { readMarkdown } from "../markdown/markdown.ts";
import { defuseMentions } from "./mentions.ts";
import type { Part, PartsOptions, TextFormat } from "./part.ts";

/** A text that parts are made of. Places are offsets in `text`. */
export interface TextSource {
  readonly text: string;
  /** What lies between two places, with a paragraph of ours behind it. */
  readonly render: (from: number, to: number, note?: string) => Part;
  /** The same without any mark. */
  readonly renderLiteral: (from: number, to: number) => Part;
  /** Where to cut instead of at a place where nothing should be cut. */
  readonly cutInstead: (at: number) => number;
  /** Where to go on instead. */
  readonly startInstead: (at: number) => number;
}

/** Links over this share of a message become words, which can be cut. */
const LINK_SHARE = 4;
const MAX_HREF_LENGTH = 2000;

export function openSource(text: string, options: PartsOptions): TextSource {
  const source = sourceOf(text, options);
  const { mentions = [] } = options;
  if (mentions.length === 0) return source;
  const defused = ({ text, html, plain, ...rest }: Part): Part => ({
    ...rest,
    text: defuseMentions(text, mentions),
    plain: defuseMentions(plain, mentions),
    ...(html === undefined ? {} : { html: defuseMentions(html, mentions) }),
  });
  return {
    ...source,
    render: (from, to, note) => defused(source.render(from, to, note)),
    renderLiteral: (from, to) => defused(source.renderLiteral(from, to)),
  };
}

function sourceOf(text: string, { format, limit }: PartsOptions): TextSource {
  const document = readMarkdown(text, Math.min(MAX_HREF_LENGTH, Math.floor(limit / LINK_SHARE)));
  if (format !== "commonmark") return sourceOfDocument(document, format);
  return sourceOfMarkdown(document.isRedacted ? document.text : text);
}

function sourceOfMarkdown(text: string): TextSource {
  const fences = findFences(text);
  const partOf = (text: string) => ({ text, plain: text });
  return {
    text,
    render: (from, to, note) =>
      partOf(sourceBetween(text, fences, { from, to }) + (note === undefined ? "" : `\n\n${note}`)),
    renderLiteral: (from, to) => partOf(text.slice(from, to)),
    cutInstead: (at) => (at === text.length ? at : outsideFenceLines(fences, at).before),
    startInstead: (at) => outsideFenceLines(fences, at).after,
  };
}

function sourceOfDocument(document: MarkdownDocument, format: Exclude<TextFormat, "commonmark">): TextSource {
  const { text } = document;
  const render = RENDERERS[format];
  return {
    text,
    render: (from, to, note) =>
      render([...slice(document, from, to), ...(note === undefined ? [] : [pieceOf(note)])]),
    renderLiteral: (from, to) => render(slice(literalDocument(text), from, to)),
    cutInstead: (at) => at,
    startInstead: (at) => at,
  };
}

const RENDERERS: Readonly<Record<Exclude<TextFormat, "commonmark">, (pieces: readonly Piece[]) => Part>> = {
  plain: (pieces) => both(renderPlain(pieces)),
  signal: (pieces) => {
    const { text, styles } = renderSignal(pieces);
    return { text, plain: text, ...(styles.length > 0 ? { styles } : {}) };
  },
  whatsapp: (pieces) => ({ text: renderWhatsApp(pieces), plain: renderPlain(pieces) }),
  slack: (pieces) => ({ text: renderSlack(pieces), plain: renderPlain(pieces) }),
  telegram: (pieces) => ({ text: renderTelegram(pieces), plain: renderPlain(pieces) }),
  matrix: (pieces) => ({ ...both(renderPlain(pieces)), html: renderHtml(pieces) }),
  email: (pieces) => ({ ...both(renderPlain(pieces)), html: renderHtml(pieces) }),
};

const both = (text: string) => ({ text, plain: text });

function pieceOf(note: string): Piece {
  const block: Block = { kind: "paragraph", start: 0, end: note.length, containers: [], isTight: false };
  const words = { text: note, marks: [], endsLink: false, isGap: false };
  return { block, index: -1, text: note, words: [words], isStart: true };
}
