/** Who is signed in, what that key may do, and whether the server has a newer console. */
import type { ConsoleSession, KeyScope } from "../../client/http.ts";
import { connection, stopGateway } from "./gateway.ts";
import {
  forgetSignIn,
  keepSession,
  lastSession,
  leaveForSignIn,
  request,
  withoutReads,
  writesDone,
} from "./session.ts";
import { createStore, useStore, type Store } from "./store.ts";

const store = createStore(lastSession());
/** What was last known, until the server answers; undefined before the first answer. */
export const me: Store<ConsoleSession | undefined> = store;

const RELOADED = "agentd.reloadedFor";

/**
 * Reads who is signed in, and again after each reconnect: the key or the server may be another one. When the server ended
 * the connection for good, the sign-in may have ended with it: then the page leaves.
 */
export function startMe(ownVersion: string): void {
  let isRead: Promise<boolean> = read();
  connection.subscribe(async () => {
    const { kind, reason } = connection.get();
    const isRefused = kind === "closed" && reason !== "";
    if (kind === "open") void reloadWhenUpdated(ownVersion);
    if (kind !== "open" && !isRefused) return;
    // The first connection comes right after the first answer.
    const before = isRead;
    isRead = Promise.resolve(false);
    if (isRefused || !(await before)) void read();
  });
}

/** False: it is not known. The banner of the connection says why, and without a sign-in the page leaves. */
async function read(): Promise<boolean> {
  try {
    const session = await request<{ url: string }, ConsoleSession>({ url: "/api/console/session" });
    store.update(() => session);
    keepSession(session);
    return true;
  } catch {
    return false;
  }
}

/** The page of an updated server names other files: loads it once, with drafts kept, after what a person has pressed. */
async function reloadWhenUpdated(ownVersion: string): Promise<void> {
  const page = await fetch("/chat", { headers: { accept: "text/html" } })
    .then((response) => response.text())
    .catch(() => "");
  const version = /name="agentd-console" content="([^"]*)"/.exec(page)?.[1];
  if (version === undefined || version === ownVersion || sessionStorage.getItem(RELOADED) === version) return;
  sessionStorage.setItem(RELOADED, version);
  await writesDone();
  location.reload();
}

/** Whether the key may do that. True until it is known, as on the first page where no key is required. */
export function useCan(scope: KeyScope): boolean {
  return useStore(
    me,
    (session) => !session || session.scopes.includes(scope) || session.scopes.includes("admin"),
  );
}

/** Signs this browser out, or `everywhere` all browsers of its key, and ends its socket. */
export async function signOut({ everywhere = false }: { readonly everywhere?: boolean } = {}): Promise<void> {
  // An open socket would try to come back without a session.
  await stopGateway();
  const url = everywhere ? "/api/console/sessions" : "/api/console/session";
  await withoutReads(() => request<{ url: string }, unknown>({ url, method: "DELETE" }));
  forgetSignIn();
  leaveForSignIn();
}
