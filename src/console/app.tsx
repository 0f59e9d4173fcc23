/** The frame of every page: rail or bottom bar, the banner of the connection, and the page itself. */
import { Component, type ComponentChildren, type ComponentType, type JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Question } from "../client/http.ts";
import { NAVIGATION, PAGES, ROUTES, type RouteName } from "./pages/routes.ts";
import { address, matchRoute, navigate, type PageProps } from "./router.ts";
import { connection, reconnectNow } from "./state/gateway.ts";
import { me, signOut } from "./state/me.ts";
import { chooseTheme, theme, type Theme } from "./state/preferences.ts";
import { useList } from "./state/resources.ts";
import { useStore } from "./state/store.ts";
import { Button, Icon, IconButton, Loading, Problem, useNow } from "./ui/controls.tsx";
import { attempt, Toasts } from "./ui/dialog.tsx";
import { relativeTime } from "./ui/format.ts";
import type * as Overlays from "./ui/palette.tsx";
import { useShortcuts, type Overlay } from "./ui/shortcuts.ts";

/** Entries of the bottom bar of a phone; the others are behind "More". */
const BAR_ENTRIES = 4;

export function App(): JSX.Element {
  const { path, query, key } = useStore(address, (value) => value);
  const match = matchRoute(ROUTES, path);
  const [overlay, show] = useState<Overlay>(undefined);
  const close = () => show(undefined);
  useShortcuts(show);
  useEffect(() => {
    if (path === "/") navigate("/chat", { replace: true });
  }, [path]);
  return (
    <div class="app-shell">
      <a class="skip-link" href="#main">
        Skip to the page
      </a>
      <Rail path={path} onSearch={() => show("palette")} />
      <div class="main-column">
        <Banner />
        <main id="main" class="page" tabIndex={-1}>
          {match ? (
            <Boundary key={match.name}>
              <Page name={match.name} params={match.params} query={query} historyKey={key} />
            </Boundary>
          ) : path === "/" ? null : (
            <NotFound path={path} />
          )}
        </main>
      </div>
      <Over overlay={overlay} onClose={close} />
      <Toasts />
    </div>
  );
}

interface OverProps {
  readonly overlay: Overlay;
  readonly onClose: () => void;
}

/** The palette, or the list of keys. Their code comes once the page has nothing else to do, and works without the gateway then. */
function Over({ overlay, onClose }: OverProps): JSX.Element | null {
  const [parts, setParts] = useState<typeof Overlays>();
  useEffect(() => {
    if (parts) return undefined;
    // Without the gateway it is tried again when it is wanted.
    const load = () => void import("./ui/palette.tsx").then(setParts, overlay ? onClose : () => {});
    if (overlay) return load();
    const timer = setTimeout(load, IDLE_AFTER_MS);
    return () => clearTimeout(timer);
  }, [parts, overlay]);
  if (!overlay || !parts) return null;
  return overlay === "palette" ? <parts.Palette onClose={onClose} /> : <parts.KeysDialog onClose={onClose} />;
}

const IDLE_AFTER_MS = 1_000;

const loaded = new Map<RouteName, ComponentType<PageProps>>();

interface LoadedPageProps extends PageProps {
  readonly name: RouteName;
  readonly historyKey: string;
}

/** Loads the code of a page once and shows it. */
function Page({ name, historyKey, ...props }: LoadedPageProps): JSX.Element {
  const [, draw] = useState(0);
  const [problem, setProblem] = useState("");
  const View = loaded.get(name);
  const load = () => {
    setProblem("");
    PAGES[name]().then(
      (page) => {
        loaded.set(name, page);
        draw((count) => count + 1);
      },
      () => setProblem("This page could not be loaded. The gateway may have been updated: reload the page."),
    );
  };
  const isConnected = useStore(connection, ({ kind }) => kind === "open");
  useEffect(() => {
    // Also what could not be loaded while the gateway was away.
    if (!View) load();
  }, [name, isConnected]);
  useScroll(historyKey, name, View !== undefined);
  if (problem) return <Problem message={problem} onRetry={() => location.reload()} />;
  return View ? <View {...props} /> : <Loading />;
}

const SCROLL = "agentd.scroll.";
/** The page that was shown last: the first page of a visit must not take the focus. */
let shownBefore: string | undefined;

/** Restores where a page was scrolled to, and moves the focus to the title of a new one. */
function useScroll(historyKey: string, name: string, isLoaded: boolean): void {
  useLayoutEffect(() => {
    const main = document.querySelector<HTMLElement>("#main");
    if (!main || !isLoaded) return undefined;
    const kept = Number(sessionStorage.getItem(SCROLL + historyKey) ?? 0);
    const stopRestoring = restoreScroll(main, kept);
    if (shownBefore !== undefined && shownBefore !== name) {
      main.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
    }
    shownBefore = name;
    const keep = () => sessionStorage.setItem(SCROLL + historyKey, String(main.scrollTop));
    main.addEventListener("scroll", keep, { passive: true });
    return () => {
      stopRestoring();
      main.removeEventListener("scroll", keep);
    };
  }, [historyKey, name, isLoaded]);
}

/** Scrolls to where a page was, as soon as it is that long: a list that is read again grows. A person who acts ends it. */
function restoreScroll(main: HTMLElement, top: number): () => void {
  const observer = new MutationObserver(() => restore());
  const acts = ["wheel", "touchstart", "pointerdown", "keydown"] as const;
  const stop = () => {
    observer.disconnect();
    cancelAnimationFrame(frame);
    for (const act of acts) main.removeEventListener(act, stop);
  };
  const restore = () => {
    main.scrollTo({ top });
    if (Math.abs(main.scrollTop - top) < 1) stop();
  };
  const frame = requestAnimationFrame(restore);
  observer.observe(main, { childList: true, subtree: true });
  for (const act of acts) main.addEventListener(act, stop, { passive: true });
  return stop;
}

interface RailProps {
  readonly path: string;
  readonly onSearch: () => void;
}

function Rail({ path, onSearch }: RailProps): JSX.Element {
  const [isMoreOpen, setMoreOpen] = useState(false);
  const hasMore = NAVIGATION.length > BAR_ENTRIES;
  return (
    <nav class={`rail ${isMoreOpen ? "rail-open" : ""}`} aria-label="Pages">
      <a class="rail-brand" href="/chat">
        <span class="rail-logo" aria-hidden="true" />
        agentd
      </a>
      <ul class="rail-list">
        {NAVIGATION.map(({ route, href, label, icon }, index) => (
          <li key={route} class={index < BAR_ENTRIES ? "rail-first" : "rail-other"}>
            <a
              href={href}
              aria-current={isBelow(href, path) ? "page" : undefined}
              onClick={() => setMoreOpen(false)}
            >
              <Icon name={icon} />
              <span>{label}</span>
              {route === "approvals" ? <WaitingCount /> : null}
            </a>
          </li>
        ))}
        {hasMore ? (
          <li class="rail-more">
            <button type="button" aria-expanded={isMoreOpen} onClick={() => setMoreOpen(!isMoreOpen)}>
              <Icon name="more" />
              <span>More</span>
            </button>
          </li>
        ) : null}
      </ul>
      <div class="rail-end">
        <button type="button" onClick={onSearch}>
          <Icon name="search" />
          <span>Search</span>
          <kbd>Ctrl K</kbd>
        </button>
        <a href="/docs" target="_blank" rel="noreferrer">
          <Icon name="docs" />
          <span>API reference</span>
        </a>
        <SignOut />
        <ThemeSwitch />
      </div>
    </nav>
  );
}

/** How many questions wait, in the rail and in the title of the browser's tab; and their notifications. */
function WaitingCount(): JSX.Element | null {
  const { items } = useList<Question>("/v1/questions", { status: "open" }, ["question"]);
  const count = items.length;
  useEffect(() => {
    document.title = count === 0 ? "agentd" : `(${count}) agentd`;
  }, [count]);
  useEffect(() => {
    // Without the gateway its code is loaded when the questions are read again.
    import("./state/notices.ts").then(
      ({ noticeQuestions }) => noticeQuestions(items),
      () => {},
    );
  }, [items]);
  if (count === 0) return null;
  return (
    <span class="rail-count">
      {count}
      <span class="sr-only"> waiting</span>
    </span>
  );
}

/** The name of the key, and the way out. Nothing without a sign-in, where the gateway needs no key. */
function SignOut(): JSX.Element | null {
  const session = useStore(me, (value) => value);
  if (!session?.auth_required) return null;
  return (
    <button
      type="button"
      title={`Signed in with the key ${session.key ?? ""}`}
      onClick={() => attempt(signOut)}
    >
      <Icon name="signOut" />
      <span>Sign out</span>
    </button>
  );
}

/** Whether a path is that of an entry, or of one of its pages. */
function isBelow(entry: string, path: string): boolean {
  return path === entry || path.startsWith(`${entry}/`);
}

const THEMES: readonly {
  readonly value: Theme;
  readonly label: string;
  readonly icon: "sun" | "moon" | "system";
}[] = [
  { value: "system", label: "Colours of the system", icon: "system" },
  { value: "light", label: "Light colours", icon: "sun" },
  { value: "dark", label: "Dark colours", icon: "moon" },
];

function ThemeSwitch(): JSX.Element {
  const chosen = useStore(theme, (value) => value);
  return (
    <div class="theme-switch" role="group" aria-label="Colours">
      {THEMES.map(({ value, label, icon }) => (
        <IconButton
          key={value}
          icon={icon}
          label={label}
          aria-pressed={chosen === value}
          onClick={() => chooseTheme(value)}
        />
      ))}
    </div>
  );
}

/** Shorter cuts are not worth a line that comes and goes. */
const BANNER_AFTER_MS = 400;

function Banner(): JSX.Element | null {
  const { kind, reason, sinceMs } = useStore(connection, (value) => value);
  const now = useNow(1_000);
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    setShown(false);
    if (kind === "open") return undefined;
    const timer = setTimeout(() => setShown(true), BANNER_AFTER_MS);
    return () => clearTimeout(timer);
  }, [kind]);
  if (kind === "open" || !isShown) return null;
  const since = relativeTime(sinceMs / 1_000, now / 1_000);
  const isOver = kind === "closed";
  return (
    <div class={`banner banner-${kind}`} role="status">
      <Icon name="offline" />
      <p>
        <b>
          {isOver ? "Disconnected." : kind === "connecting" ? "Connecting…" : "The gateway does not answer."}
        </b>{" "}
        {isOver ? reason : `Since ${since}. What you write is kept and sent when it is back.`}
      </p>
      <Button onClick={isOver ? () => location.reload() : reconnectNow}>
        {isOver ? "Reload" : "Try now"}
      </Button>
    </div>
  );
}

function NotFound({ path }: { readonly path: string }): JSX.Element {
  return (
    <div class="page-body">
      <h1 tabIndex={-1}>No such page</h1>
      <p>
        The console has no page <code>{path}</code>. <a href="/chat">Go to the chat</a>
      </p>
    </div>
  );
}

/** A page that fails to draw keeps the rail, and says what to report. */
class Boundary extends Component<{ readonly children: ComponentChildren }, { readonly error?: Error }> {
  override componentDidCatch(error: Error): void {
    this.setState({ error });
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div class="page-body">
        <h1 tabIndex={-1}>This page failed</h1>
        <Problem message={error.message} onRetry={() => this.setState({})} />
        <pre class="output" tabIndex={0} aria-label="Report">
          {error.stack ?? error.message}
        </pre>
      </div>
    );
  }
}
