/** The console: its pages, and the sessions of browsers. Most of its modules load with the first browser. */
import type { H3, H3Event } from "h3";
import { ServiceError } from "../../base/errors.ts";
import type { HttpDeps } from "../deps.ts";
import type { KeyHolder } from "../edge/access.ts";
import { COOKIE_PREFIX, type Fallback, PAGES } from "./headers.ts";
import type { Pages } from "./pages.ts";
import type { SignIns } from "./sessions.ts";

export class Console {
  readonly #deps: HttpDeps;
  readonly #isOn: boolean;
  #signIns: Promise<SignIns> | undefined;
  #pages: Promise<Pages> | undefined;

  constructor(deps: HttpDeps) {
    this.#deps = deps;
    this.#isOn = deps.settings.console.isEnabled;
  }

  /** Returns whether a request without a key may come from a page of the console. */
  isAsked({ headers }: Request): boolean {
    return this.#isOn && (headers.get("cookie")?.includes(COOKIE_PREFIX) ?? false);
  }

  /** Returns who makes the request of a page. ServiceError `sign_in_required`, `origin_not_allowed`, `plain_http_not_allowed`. */
  async identify(request: Request): Promise<KeyHolder> {
    return (await this.#openSignIns()).sessions.identify(request);
  }

  /** Returns what signs browsers in. ServiceError `not_found` while the console is off. */
  async signIns(): Promise<SignIns> {
    if (!this.#isOn) throw new ServiceError("not_found", "The console is off. Set console.enabled to true.");
    return this.#openSignIns();
  }

  /**
   * Mounts the pages and their files. A path is a page for browsers alone: other clients get what it is without the
   * console.
   */
  mount(app: H3, fallback: Fallback): void {
    if (!this.#isOn) return;
    const mountPage = (route: string) =>
      app.all(route, async (event) =>
        wantsPage(event) ? (await this.#openPages(fallback)).page(event) : fallback.answer(event),
      );
    app.all("/_console/:name", async (event) => (await this.#openPages(fallback)).asset(event));
    app.all("/login", async (event) =>
      wantsPage(event) ? (await this.#openPages(fallback)).login(event) : fallback.answer(event),
    );
    for (const page of PAGES) for (const route of [`/${page}`, `/${page}/**`]) mountPage(route);
  }

  /** Returns the page at `/`; undefined where another answer belongs. */
  async root(event: H3Event, fallback: Fallback): Promise<Response | undefined> {
    if (!this.#isOn || !wantsPage(event)) return undefined;
    return (await this.#openPages(fallback)).page(event);
  }

  #openSignIns(): Promise<SignIns> {
    const open = async () => {
      const { ConsoleSessions, SignInAttempts } = await import("./sessions.ts");
      const { allowPlainHttp } = this.#deps.settings.console;
      const sessions = new ConsoleSessions({ ...this.#deps, allowPlainHttp });
      return { sessions, attempts: new SignInAttempts(this.#deps.clock) };
    };
    return (this.#signIns ??= open());
  }

  #openPages(fallback: Fallback): Promise<Pages> {
    const open = async () => {
      const { Pages: Opened } = await import("./pages.ts");
      const { keys, log, settings } = this.#deps;
      const { folder, allowPlainHttp } = settings.console;
      const keysRequired = keys.required;
      const { sessions } = await this.#openSignIns();
      return new Opened({ ...fallback, sessions, keysRequired, allowPlainHttp, log, folder });
    };
    return (this.#pages ??= open());
  }
}

function wantsPage({ req: { method, headers } }: H3Event): boolean {
  return (method === "GET" || method === "HEAD") && (headers.get("accept") ?? "").includes("text/html");
}
