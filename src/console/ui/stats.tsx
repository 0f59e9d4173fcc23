/** A few numbers that matter, side by side, and what a page says to a key that may not see it. */
import type { ComponentChildren, JSX } from "preact";
import type { KeyScope } from "../../client/http.ts";
import { me, useCan } from "../state/me.ts";
import { useStore } from "../state/store.ts";
import { Icon, Loading, PageHeader } from "./controls.tsx";

export interface Stat {
  readonly name: string;
  readonly value: ComponentChildren;
  /** What the number leaves out, or of what it is a part. */
  readonly note?: ComponentChildren;
}

export function Stats({
  label,
  stats,
}: {
  readonly label: string;
  readonly stats: readonly Stat[];
}): JSX.Element {
  return (
    <dl class="stats" aria-label={label}>
      {stats.map(({ name, value, note }) => (
        <div key={name} class="stat">
          <dt>{name}</dt>
          <dd class="stat-value">{value}</dd>
          {note ? <dd class="stat-note">{note}</dd> : null}
        </div>
      ))}
    </dl>
  );
}

interface NeedsProps {
  readonly scope: KeyScope;
  /** What the page shows, such as "the log". */
  readonly what: string;
  /** Title of a page that is not shown at all. */
  readonly title?: string;
  readonly children: ComponentChildren;
}

/** Shows its children to a key with the scope. To another one it says which key is signed in, and what it lacks. */
export function NeedsScope({ scope, what, title, children }: NeedsProps): JSX.Element {
  const canSee = useCan(scope);
  const session = useStore(me, (value) => value);
  if (session && canSee) return <>{children}</>;
  return (
    <>
      {title ? <PageHeader title={title} /> : null}
      {/* Not before it is known: what the page reads could be refused. */}
      {session ? <Missing scope={scope} what={what} keyName={session.key ?? ""} /> : <Loading />}
    </>
  );
}

type MissingProps = Pick<NeedsProps, "scope" | "what"> & { readonly keyName: string };

function Missing({ scope, what, keyName }: MissingProps): JSX.Element {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name="lock" />
      </span>
      <h2>This key may not see {what}</h2>
      <p>
        You are signed in with the key <code>{keyName}</code>, which lacks the scope <code>{scope}</code>.
        Sign in with another key, or let someone with the scope admin change this one.
      </p>
    </div>
  );
}
