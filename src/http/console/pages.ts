/** The pages of the console: one document for all of them, the sign-in, and its files. */
import type { H3Event } from "h3";
import type { Log } from "../../base/observe.ts";
import { rawAnswer } from "../edge/answer.ts";
import { Assets } from "./assets.ts";
import type { Fallback } from "./headers.ts";
import { EXPOSED, isExposed, PAGE_HEADERS, PAGES } from "./headers.ts";
import type { ConsoleSessions } from "./sessions.ts";

export interface PagesDeps extends Fallback {
  readonly sessions: ConsoleSessions;
  readonly keysRequired: boolean;
  readonly allowPlainHttp: boolean;
  readonly log: Log;
  /** Where the console is built; undefined: beside the program. */
  readonly folder?: URL | undefined;
}

/** Answers requests for pages and their files. */
export class Pages {
  readonly #assets: Assets;
  readonly #deps: PagesDeps;

  constructor(deps: PagesDeps) {
    this.#deps = deps;
    this.#assets = new Assets(deps.folder && [deps.folder]);
  }

  /** A file that the build does not name is never answered with a page. */
  async asset(event: H3Event): Promise<Response> {
    const { method } = event.req;
    const name = event.context.params?.["name"];
    const headers = {
      "x-request-id": this.#deps.requestIdOf(event),
      "x-content-type-options": "nosniff",
      "cross-origin-resource-policy": "same-origin",
    };
    const isRead = name !== undefined && (method === "GET" || method === "HEAD");
    const asset = isRead ? await this.#assets.asset(name, event.req, headers) : undefined;
    return asset ?? this.#deps.answer(event);
  }

  /** Without a session, the browser signs in first. */
  async page(event: H3Event): Promise<Response> {
    if (!this.#deps.keysRequired || (await this.#isSignedIn(event)))
      return this.#documentOf("index.html", event);
    const { pathname, search } = new URL(event.req.url);
    const next = pathname === "/" && search === "" ? "" : `?next=${encodeURIComponent(pathname + search)}`;
    return this.#redirect(event, `/login${next}`);
  }

  async login(event: H3Event): Promise<Response> {
    const { keysRequired, allowPlainHttp } = this.#deps;
    const { searchParams } = new URL(event.req.url);
    if (!keysRequired) return this.#redirect(event, "/");
    const next = searchParams.get("next");
    if (next !== null && !isOwnPath(next)) return this.#redirect(event, "/login");
    if (!allowPlainHttp && isExposed(event.req))
      return this.#staticPage(event, { status: 403, title: "This connection is not private", text: EXPOSED });
    return this.#documentOf("login.html", event);
  }

  async #isSignedIn({ req }: H3Event): Promise<boolean> {
    // The page has no data in it. It says itself that the database is away.
    return this.#deps.sessions.isSignedIn(req).catch(() => true);
  }

  async #documentOf(name: string, event: H3Event): Promise<Response> {
    try {
      const page = await this.#assets.page(name, event.req, this.#headers(event));
      if (page) return page;
    } catch (error) {
      this.#deps.log.error("a page of the console cannot be read", { page: name, error });
    }
    const text = "Run npm run build, then reload this page. The API works without the console.";
    return this.#staticPage(event, { status: 503, title: "The console is not built", text });
  }

  #staticPage(
    event: H3Event,
    { status, title, text }: { readonly status: number; readonly title: string; readonly text: string },
  ): Response {
    const body = [
      `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">`,
      `<title>${title} - agentd</title><main><h1>${title}</h1><p>${text.replaceAll("<", "&lt;")}</p>`,
      `<p><a href="/docs">API reference</a></p></main></html>`,
    ].join("\n");
    const headers = { ...this.#headers(event), "content-type": "text/html; charset=utf-8" };
    return rawAnswer(status, event.req.method === "HEAD" ? null : body, headers);
  }

  #redirect(event: H3Event, location: string): Response {
    return rawAnswer(303, null, { ...this.#headers(event), location });
  }

  #headers(event: H3Event) {
    return { ...PAGE_HEADERS, "x-request-id": this.#deps.requestIdOf(event) };
  }
}

/** Returns whether a path leads to a page of this server: no other host, and nothing that a browser reads as one. */
export function isOwnPath(path: string): boolean {
  if (!/^\/(?![/\\])[^\\\p{Cc}]*$/u.test(path)) return false;
  const [, first = ""] = (URL.parse(path, "http://localhost")?.pathname ?? "").split("/");
  return first === "" || PAGES.includes(first);
}
