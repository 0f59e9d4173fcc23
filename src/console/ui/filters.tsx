/** Filters of a list. They live in the address: a filtered list can be linked to, and Back restores it. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { address, setQuery } from "../router.ts";
import { useStore } from "../state/store.ts";
import { Icon } from "./controls.tsx";

const SEARCH_AFTER_MS = 250;

export function Filters({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return (
    <div class="filters" role="search">
      {children}
    </div>
  );
}

interface FilterProps {
  /** The parameter of the address. */
  readonly name: string;
  readonly label: string;
}

/** Free text. `/` moves the focus here. */
export function SearchFilter({ name, label }: FilterProps): JSX.Element {
  const value = useParameter(name);
  const [typed, setTyped] = useState(value);
  const sent = useRef(value);
  useEffect(() => {
    // Back, or a link, has changed the address.
    if (value !== sent.current) setTyped(value);
    sent.current = value;
  }, [value]);
  useEffect(() => {
    if (typed === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = typed;
      setQuery({ [name]: typed });
    }, SEARCH_AFTER_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label class="search">
      <Icon name="search" />
      <span class="sr-only">{label}</span>
      <input
        class="input"
        type="search"
        placeholder={label}
        value={typed}
        data-search
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
    </label>
  );
}

type Options = readonly (readonly [value: string, word: string])[];

/** One of several values, or all of them. */
export function ChoiceFilter({
  name,
  label,
  options,
}: FilterProps & { readonly options: Options }): JSX.Element {
  const value = useParameter(name);
  return (
    <label class="filter">
      <span>{label}</span>
      <select
        class="input"
        value={value}
        onChange={(event) => setQuery({ [name]: event.currentTarget.value })}
      >
        <option value="">All</option>
        {options.map(([choice, word]) => (
          <option key={choice} value={choice}>
            {word}
          </option>
        ))}
      </select>
    </label>
  );
}

const HOUR = 3_600;
const DAY = 86_400;
const WINDOWS: Options = [
  [String(HOUR), "Last hour"],
  [String(DAY), "Last 24 hours"],
  [String(7 * DAY), "Last 7 days"],
  [String(30 * DAY), "Last 30 days"],
];

/** A time window up to now, kept in the address as its length in seconds. {@link windowStart} makes a time of it. */
export function WindowFilter({ name, label }: FilterProps): JSX.Element {
  return <ChoiceFilter name={name} label={label} options={WINDOWS} />;
}

/** Returns where a time window begins, in Unix seconds to the minute, so that a page keeps asking for the same list. */
export function windowStart(value: string | null): string | undefined {
  const seconds = Number(value);
  if (!value || !Number.isFinite(seconds)) return undefined;
  return String(Math.floor(Date.now() / 60_000) * 60 - seconds);
}

/** Returns a parameter of the address; empty when it is not there. */
export function useParameter(name: string): string {
  return useStore(address, ({ query }) => query.get(name) ?? "");
}

interface TabsProps {
  readonly label: string;
  readonly name: string;
  readonly options: Options;
}

/** Views of one page, in the address. The first one is shown without a parameter. */
export function Tabs({ label, name, options }: TabsProps): JSX.Element {
  const value = useParameter(name) || (options[0]?.[0] ?? "");
  return (
    <div class="tabs" role="group" aria-label={label}>
      {options.map(([choice, word], index) => (
        <button
          key={choice}
          type="button"
          class="tab"
          aria-pressed={choice === value}
          onClick={() => setQuery({ [name]: index === 0 ? undefined : choice })}
        >
          {word}
        </button>
      ))}
    </div>
  );
}
