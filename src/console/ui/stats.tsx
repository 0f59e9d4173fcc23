/** A few numbers that matter, side by side, and what a page says to a key that may not see it. */
import type { ComponentChildren, JSX } from "preact";
import type { KeyScope } from "../../client/http.ts";
import { me, useCan } from "../state/me.ts";
import { useStore } from "../state/store.ts";
import { Icon, Loading } from "./controls.tsx";

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
  readonly children: ComponentChildren;
}

/** Shows its children to a key with the scope. To another one it says which key is signed in, and what it lacks. */
export function NeedsScope({ scope, what, children }: NeedsProps): JSX.Element {
  const canSee = useCan(scope);
  const session = useStore(me, (value) => value);
  // Not before it is known: what the page reads would be refused.
  if (!session) return <Loading />;
  if (canSee) return <>{children}</>;
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name="lock" />
      </span>
      <h2>This key may not see {what}</h2>
      <p>
        You are signed in with the key <code>{session.key ?? ""}</code>, which lacks the scope <code>{scope}</code>.
        Sign in with another key, or let someone with the scope admin change this one.
      </p>
    </div>
  );
}
