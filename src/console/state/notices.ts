/** Notifications of the browser about questions that wait, for a person who has asked for them. */
import type { Question } from "../../client/http.ts";
import { navigate } from "../router.ts";
import { createStore, type Store } from "./store.ts";

const WANTED = "agentd.notices";

/** Whether this browser can notify at all: pages that are not secure cannot. */
export const canNotify = isSecureContext && "Notification" in globalThis;

const wanted = createStore(
  canNotify && localStorage.getItem(WANTED) === "on" && Notification.permission === "granted",
);
/** Whether the person wants notifications in this browser, and the browser allows them. */
export const hasNotices: Store<boolean> = wanted;

const shown = new Map<string, Notification>();
let known: ReadonlySet<string> = new Set();

/** Switches notifications on or off. Asks the browser for its permission first, and rejects when it refuses. */
export async function switchNotices(isOn: boolean): Promise<void> {
  if (isOn) await begin();
  else closeNotices();
  localStorage.setItem(WANTED, isOn ? "on" : "off");
  wanted.update(() => isOn);
}

async function begin(): Promise<void> {
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Error(
      "The browser refuses notifications of this page. Allow them for it in the settings of the browser.",
    );
  }
  try {
    // Shows what they look like; some phones have the permission, and no notifications without an installed page.
    new Notification("Notifications are on", { body: "They appear when the agent waits for you." });
  } catch {
    throw new Error("This browser shows no notifications of pages.");
  }
}

/** Takes all open questions: notifies of a new one unless the page is looked at, and closes those that are answered. */
export function noticeQuestions(open: readonly Question[]): void {
  const ids = new Set(open.map(({ id }) => id));
  for (const [id, notice] of shown) {
    if (ids.has(id)) continue;
    notice.close();
    shown.delete(id);
  }
  const isLookedAt = !document.hidden && document.hasFocus();
  if (wanted.get() && !isLookedAt) {
    for (const question of open) if (!known.has(question.id)) notify(question);
  }
  known = ids;
}

/** Says who asks, and not what: a notification is also shown on locked screens. */
function notify({ id, kind, approval, session_id: session }: Question): void {
  const title = kind === "approval" && approval ? `The agent asks to use ${approval.tool}` : TITLES[kind];
  const notice = new Notification(title, { body: "It waits for your answer in the console.", tag: id });
  notice.onclick = () => {
    window.focus();
    navigate(`/chat/${encodeURIComponent(session)}`);
    notice.close();
  };
  shown.set(id, notice);
}

const TITLES: Readonly<Record<Question["kind"], string>> = {
  approval: "The agent asks for approval",
  clarify: "The agent asks a question",
  sudo: "The agent asks for your password",
  secret: "The agent asks for a secret",
};

function closeNotices(): void {
  for (const notice of shown.values()) notice.close();
  shown.clear();
}

// A page that is gone cannot close them when the questions are answered.
globalThis.addEventListener("pagehide", closeNotices);
