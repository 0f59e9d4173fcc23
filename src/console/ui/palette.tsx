/** The palette (Ctrl-K): pages, sessions and actions by a few letters; and the keys of the console. */
import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import type { Session } from "../../client/http.ts";
import { NAVIGATION } from "../pages/routes.ts";
import { navigate } from "../router.ts";
import { findCommands, keepUsed, readUsed, type Command } from "../state/commands.ts";
import { me, signOut } from "../state/me.ts";
import { chooseTheme, hasShortcuts, switchShortcuts } from "../state/preferences.ts";
import { request } from "../state/session.ts";
import { useStore } from "../state/store.ts";
import { attempt, Dialog } from "./dialog.tsx";
import { CheckBox } from "./controls.tsx";

interface OverlayProps {
  readonly onClose: () => void;
}

const SEARCH_AFTER_MS = 150;

export function Palette({ onClose }: OverlayProps): JSX.Element {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const sessions = useSessions(typed);
  const isSignedIn = useStore(me, (session) => session?.auth_required === true);
  const found = findCommands([...commandsOf(isSignedIn), ...sessions], typed, readUsed());
  const list = useId();
  const chosen = found[Math.min(at, found.length - 1)];
  const run = (command: Command | undefined) => {
    if (!command) return;
    keepUsed(command.id);
    onClose();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) setAt((Math.min(at, found.length - 1) + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(chosen);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to or do" onClose={onClose}>
      <input
        class="input"
        role="combobox"
        aria-label="Search pages, sessions and actions"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={chosen ? `${list}-${chosen.id}` : undefined}
        placeholder="Search pages, sessions and actions"
        autofocus
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul class="choices palette" role="listbox" id={list} aria-label="Results">
        {found.map((command) => (
          <li
            key={command.id}
            id={`${list}-${command.id}`}
            role="option"
            aria-selected={command === chosen}
            class="choice"
            ref={(element) => {
              if (command === chosen) element?.scrollIntoView({ block: "nearest" });
            }}
            onClick={() => run(command)}
          >
            <span>{command.label}</span>
            <span class="dim">{command.group}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p class="dim">Nothing fits.</p> : null}
    </Dialog>
  );
}

function commandsOf(isSignedIn: boolean): readonly Command[] {
  const pages = NAVIGATION.map(({ href, label }) => ({
    id: `page${href}`,
    label,
    group: "Page",
    run: () => navigate(href),
  }));
  const action = (id: string, label: string, run: () => void) => ({ id, label, group: "Action", run });
  return [
    ...pages,
    action("new", "New conversation", () => navigate("/chat/new")),
    action("light", "Light colours", () => chooseTheme("light")),
    action("dark", "Dark colours", () => chooseTheme("dark")),
    action("system", "Colours of the system", () => chooseTheme("system")),
    action("docs", "API reference", () => void open("/docs", "_blank", "noreferrer")),
    ...(isSignedIn ? [action("out", "Sign out", () => attempt(signOut))] : []),
  ];
}

/** Sessions whose title or id contains what was typed. */
function useSessions(typed: string): readonly Command[] {
  const [found, setFound] = useState<readonly Session[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const search = async () => {
      const query = { q: typed.trim(), limit: 10 };
      const { data } = await request<{ url: string; query: object }, { data: Session[] }>({
        url: "/v1/sessions",
        query,
        signal: stop.signal,
      });
      setFound(data);
    };
    // The palette works without them.
    const timer = setTimeout(() => search().catch(() => {}), SEARCH_AFTER_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [typed]);
  return found.map(({ id, title, preview }) => ({
    id: `session-${id}`,
    label: title || preview || id,
    group: "Session",
    run: () => navigate(`/chat/${encodeURIComponent(id)}`),
  }));
}

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["Ctrl K or ⌘ K", "search pages, sessions and actions"],
  ...NAVIGATION.map(({ key, label }) => [`g ${key}`, `go to ${label}`] as const),
  ["/", "search in the list"],
  ["j and k", "next and previous row; Enter opens it"],
  ["n", "new conversation"],
  ["?", "these keys"],
  ["Enter", "send; Shift Enter: new line"],
  ["Alt Enter", "during a turn: steer it"],
  ["Esc", "in the message: stop the turn"],
];

export function KeysDialog({ onClose }: OverlayProps): JSX.Element {
  const isOn = useStore(hasShortcuts, (value) => value);
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <CheckBox label="Single keys act on the page" isOn={isOn} onChange={switchShortcuts} />
    </Dialog>
  );
}
