/** The sign-in page: by the link of `agentd open`, by its short code, or with a key. */
import { render, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ConsoleSession } from "../../client/http.ts";
import { AgentApiError, send } from "../../client/request.ts";
import { applyTheme } from "../state/preferences.ts";
import { keepSignIn, messageOf } from "../state/session.ts";
import { Button, Field, Snippet } from "../ui/controls.tsx";

applyTheme();
const root = document.querySelector("#app");
if (root) render(<SignIn link={takeCode()} />, root);

/** Takes the code of a link out of the address at once: it must be in no history. */
function takeCode(): string | undefined {
  const code = /^#c=([\w-]+)$/.exec(location.hash)?.[1];
  if (location.hash !== "") history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** Only addresses of this console: a link must not lead people elsewhere. */
export function nextAddress(search: string): string {
  const next = new URLSearchParams(search).get("next") ?? "/chat";
  const isOwn = /^\/(?![/\\])/.test(next) && !next.startsWith("/login");
  return isOwn && URL.parse(next, location.origin)?.origin === location.origin ? next : "/chat";
}

async function signIn(proof: { readonly code: string } | { readonly key: string }): Promise<void> {
  const response = await send({ baseUrl: location.origin }, "/api/console/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(proof),
  });
  keepSignIn((await response.json()) as ConsoleSession);
  location.replace(nextAddress(location.search));
}

function SignIn({ link }: { readonly link: string | undefined }): JSX.Element {
  const [state, setState] = useState({ isBusy: link !== undefined, problem: "" });
  const [typed, setTyped] = useState("");
  const start = (proof: Parameters<typeof signIn>[0]) => {
    setState({ isBusy: true, problem: "" });
    signIn(proof).catch((error: unknown) => setState({ isBusy: false, problem: problemOf(error) }));
  };
  useEffect(() => {
    if (link !== undefined) start({ code: link });
    // A link that is pasted over this address does not load the page again.
    const onHash = () => {
      const code = takeCode();
      if (code !== undefined) start({ code });
    };
    globalThis.addEventListener("hashchange", onHash);
    return () => globalThis.removeEventListener("hashchange", onHash);
  }, []);
  return (
    <main class="sign-in">
      <h1>
        <span class="rail-logo" aria-hidden="true" /> Sign in to agentd
      </h1>
      {state.problem ? (
        <p class="problem-line" role="alert">
          {state.problem}
        </p>
      ) : null}
      <section>
        <p>Run this on the machine of the gateway. It opens this page and signs you in.</p>
        <Snippet text="agentd open" label="Command" />
        <p class="dim">
          On another device: <code>agentd open --code</code> shows a short code.
        </p>
      </section>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const value = typed.trim();
          setTyped("");
          if (value !== "") start(isCode(value) ? { code: value.toUpperCase() } : { key: value });
        }}
      >
        <Field label="Code or API key" hint="A key is sent once and kept nowhere in the browser.">
          {({ id, describedBy }) => (
            <input
              id={id}
              class="input"
              type="password"
              autocomplete="off"
              spellcheck={false}
              aria-describedby={describedBy}
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          )}
        </Field>
        <Button type="submit" look="primary" isBusy={state.isBusy}>
          {state.isBusy ? "Signing in" : "Sign in"}
        </Button>
      </form>
    </main>
  );
}

/** `K7QP-3MXD`: everything else is a key. */
function isCode(text: string): boolean {
  return /^[A-Za-z0-9]{4}-?[A-Za-z0-9]{4}$/.test(text);
}

function problemOf(error: unknown): string {
  if (error instanceof AgentApiError && error.retryAfterSeconds !== undefined)
    return `${error.message} Try again in ${error.retryAfterSeconds} s.`;
  return messageOf(error);
}
