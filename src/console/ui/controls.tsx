/** Small parts of every page: icons, buttons, fields, badges, times. */
import { h, type ComponentChildren, type JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { absoluteTime, countdown, relativeTime } from "./format.ts";
import { SHAPES, type IconName } from "./icons.ts";

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      {SHAPES[name].map(([tag, attributes], index) => h(tag, { key: index, ...attributes }))}
    </svg>
  );
}

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "icon" | "class"> & {
  /** `quiet` has no border; `danger` changes or ends something for good. */
  readonly look?: "plain" | "primary" | "danger" | "quiet";
  readonly icon?: IconName;
  /** Locks the button and says that work is going on. */
  readonly isBusy?: boolean;
};

export function Button({
  look = "plain",
  icon,
  isBusy = false,
  children,
  ...rest
}: ButtonProps): JSX.Element {
  return (
    <button
      type="button"
      {...rest}
      class={`button button-${look}`}
      aria-busy={isBusy || undefined}
      disabled={isBusy || rest.disabled}
    >
      {icon ? <Icon name={icon} /> : null}
      {children}
    </button>
  );
}

type IconButtonProps = Omit<ButtonProps, "children"> & { readonly icon: IconName; readonly label: string };

/** A button that shows only an icon; `label` is its name for everyone who cannot see it. */
export function IconButton({ icon, label, look = "quiet", isBusy, ...rest }: IconButtonProps): JSX.Element {
  return (
    <button
      type="button"
      title={label}
      {...rest}
      class={`button icon-button button-${look}`}
      aria-label={label}
      aria-busy={isBusy || undefined}
    >
      <Icon name={icon} />
    </button>
  );
}

export type Tone = "good" | "bad" | "warn" | "busy" | "dim";

/** A status in words, with a colour that only repeats it. */
export function Badge({
  tone,
  children,
}: {
  readonly tone: Tone;
  readonly children: ComponentChildren;
}): JSX.Element {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}

/** A time as distance from now; the exact one is its title. */
export function Time({ at }: { readonly at: number | null | undefined }): JSX.Element {
  const now = useNow(30_000);
  if (at === null || at === undefined) return <span class="dim">–</span>;
  return (
    <time dateTime={new Date(at * 1_000).toISOString()} title={absoluteTime(at)}>
      {relativeTime(at, now / 1_000)}
    </time>
  );
}

/** What is left until a deadline, counted down. `at` in Unix seconds. */
export function Countdown({ at }: { readonly at: number }): JSX.Element {
  const now = useNow(1_000);
  return (
    <time class="countdown" role="timer" aria-live="off" title={absoluteTime(at)}>
      {countdown(at - now / 1_000)}
    </time>
  );
}

/** Returns the time in milliseconds, and draws again every `everyMs`. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

const COPIED_MS = 1_600;

/** Copies a text. Pages on plain HTTP have no clipboard: there it selects nothing and says so. */
export function Copy({
  text,
  label = "Copy",
}: {
  readonly text: string;
  readonly label?: string;
}): JSX.Element {
  const [said, setSaid] = useState("");
  const copy = async () => {
    setSaid((await copyText(text)) ? "Copied" : "Not possible here");
    setTimeout(() => setSaid(""), COPIED_MS);
  };
  return (
    <Button look="quiet" icon={said === "Copied" ? "check" : "copy"} onClick={() => void copy()}>
      <span aria-live="polite">{said || label}</span>
    </Button>
  );
}

/** Puts text into the clipboard. Resolves to false where the browser does not allow it. */
export async function copyText(text: string): Promise<boolean> {
  // Undefined outside of a secure context.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (!clipboard) return false;
  return clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  readonly children: (ids: {
    readonly id: string;
    readonly describedBy: string | undefined;
  }) => ComponentChildren;
}

/** A label, its input, a hint, and what is wrong with the value. */
export function Field({ label, hint, error, children }: FieldProps): JSX.Element {
  const id = useId();
  const describedBy = hint || error ? `${id}-hint` : undefined;
  return (
    <div class={`field ${error ? "field-invalid" : ""}`}>
      <label for={id}>{label}</label>
      {children({ id, describedBy })}
      {describedBy ? (
        <p class="field-hint" id={describedBy}>
          {error ? <span role="alert">{error}</span> : hint}
        </p>
      ) : null}
    </div>
  );
}

interface CheckBoxProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly isOn: boolean;
  readonly isDisabled?: boolean;
  readonly onChange: (isOn: boolean) => void;
}

export function CheckBox({ label, hint, isOn, isDisabled = false, onChange }: CheckBoxProps): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isOn}
        disabled={isDisabled}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>
        {label}
        {hint ? <span class="field-hint">{hint}</span> : null}
      </span>
    </label>
  );
}

interface EmptyProps {
  readonly icon: IconName;
  readonly title: string;
  readonly children?: ComponentChildren;
}

/** What an empty page says: one step to fill it. */
export function Empty({ icon, title, children }: EmptyProps): JSX.Element {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name={icon} />
      </span>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A command or address to copy. */
export function Snippet({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  return (
    <div class="snippet">
      <pre tabIndex={0} aria-label={label}>
        <code>{text}</code>
      </pre>
      <Copy text={text} />
    </div>
  );
}

interface HeaderProps {
  readonly title: ComponentChildren;
  /** Beside the title, such as a status. */
  readonly aside?: ComponentChildren;
  /** Buttons at the end. */
  readonly children?: ComponentChildren;
  readonly back?: { readonly href: string; readonly label: string };
}

/** The head of a page. Navigation moves the focus to its title. */
export function PageHeader({ title, aside, back, children }: HeaderProps): JSX.Element {
  return (
    <header class="page-header">
      {back ? (
        <a
          class="button icon-button button-quiet"
          href={back.href}
          aria-label={back.label}
          title={back.label}
        >
          <Icon name="back" />
        </a>
      ) : null}
      <h1 tabIndex={-1}>{title}</h1>
      {aside}
      <span class="grow" />
      {children}
    </header>
  );
}

/** Says that something loads, once it takes long enough to be noticed. */
export function Loading({ label = "Loading" }: { readonly label?: string }): JSX.Element {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {label}
    </p>
  );
}

/** An error in a page, with what to do. */
export function Problem({
  message,
  onRetry,
}: {
  readonly message: string;
  readonly onRetry?: () => void;
}): JSX.Element {
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <p>{message}</p>
      {onRetry ? (
        <Button onClick={onRetry} icon="refresh">
          Try again
        </Button>
      ) : null}
    </div>
  );
}
