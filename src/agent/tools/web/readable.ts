import { Readability } from "@mozilla/readability";
import { parseHTML } from "linkedom";
import TurndownService from "turndown";

export interface ReadablePage {
  readonly title: string;
  readonly markdown: string;
}

/** URL of this module, bundled or not, for a thread; see src/agent/tools/web/page-reader.ts. */
export const moduleUrl = import.meta.url;

/** A shorter article is probably a wrong guess. */
const MIN_ARTICLE_CHARACTERS = 200;
const MAX_TITLE_CHARACTERS = 300;
const MAX_URL_CHARACTERS = 2_000;

/**
 * Returns the main part of a page as Markdown, or the whole body without one. Makes links absolute with `url`. Some
 * pages take minutes or overflow the stack: call it only where it can be stopped.
 */
export function toReadable(html: string, url: string): ReadablePage {
  const { document } = parsed(html);
  const base = baseOf(document, url);
  const ownTitle = document.querySelector("title")?.textContent ?? "";
  const article = new Readability(document, { serializer: (node) => node as Element }).parse();
  const isArticle = article?.content && (article.textContent ?? "").trim().length >= MIN_ARTICLE_CHARACTERS;
  // Finding the article modified the document.
  const root = isArticle ? article.content : bodyOf(html);
  return {
    title: (article?.title || ownTitle).replace(/\s+/g, " ").trim().slice(0, MAX_TITLE_CHARACTERS),
    markdown: root
      ? markdownService(base)
          .turndown(root as HTMLElement)
          .trim()
      : "",
  };
}

function bodyOf(html: string): Element | undefined {
  const { body } = parsed(html).document;
  for (const element of body?.querySelectorAll("script, style, noscript, template, svg, iframe") ?? [])
    element.remove();
  return body ?? undefined;
}

/** Parses a page; adds html and body, which the parser does not add. */
function parsed(html: string): { readonly document: Document } {
  const isWhole = /<html[\s>]/i.test(html);
  const hasBody = /<body[\s>]/i.test(html);
  if (isWhole && hasBody) return parseHTML(html);
  return parseHTML(`<!doctype html><html><head></head><body>${html}</body></html>`);
}

function baseOf(document: Document, url: string): string {
  const href = document.querySelector("base[href]")?.getAttribute("href") ?? "";
  return absolute(href, url) ?? url;
}

/** Returns the web address of `href`; undefined for scripts, inline data and invalid addresses. */
function absolute(href: string, base: string): string | undefined {
  if (href.length > MAX_URL_CHARACTERS || !URL.canParse(href, base)) return undefined;
  const url = new URL(href, base);
  return url.protocol === "http:" || url.protocol === "https:" || url.protocol === "mailto:"
    ? url.href
    : undefined;
}

function markdownService(base: string): TurndownService {
  const service = new TurndownService({
    headingStyle: "atx",
    codeBlockStyle: "fenced",
    bulletListMarker: "-",
  });
  service.remove(["script", "style", "noscript", "iframe"]);
  service.addRule("link", {
    filter: (node) => node.nodeName === "A",
    replacement: (content, node) => {
      const text = content.replace(/\s+/g, " ").trim();
      const target = absolute((node as Element).getAttribute("href") ?? "", base);
      const isHere = (node as Element).getAttribute("href")?.startsWith("#");
      return target === undefined || text === "" || isHere ? text : `[${text}](${encodeParentheses(target)})`;
    },
  });
  service.addRule("image", {
    filter: "img",
    replacement: (_, node) => {
      const alt = ((node as Element).getAttribute("alt") ?? "").replace(/[\s[\]]+/g, " ").trim();
      const target = absolute((node as Element).getAttribute("src") ?? "", base);
      return alt === "" || target === undefined ? alt : `![${alt}](${encodeParentheses(target)})`;
    },
  });
  addTables(service);
  return service;
}

function addTables(service: TurndownService): void {
  service.addRule("cell", {
    filter: ["td", "th"],
    replacement: (content) => ` ${content.replace(/\s+/g, " ").replaceAll("|", "\\|").trim()} |`,
  });
  service.addRule("row", {
    filter: "tr",
    replacement: (content, node) => {
      const isHeading =
        (node as Element).querySelector("th") !== null && !(node as Element).querySelector("td");
      const cells = (node as Element).children.length;
      return `\n|${content.replace(/\n/g, "")}${isHeading ? `\n|${" --- |".repeat(cells)}` : ""}`;
    },
  });
}

function encodeParentheses(url: string): string {
  return url.replaceAll("(", "%28").replaceAll(")", "%29");
}
