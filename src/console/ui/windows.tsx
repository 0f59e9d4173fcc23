/** A long list in windows of 50 items: those out of sight are empty boxes of the height they had. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { memo } from "./memo.ts";

const SIZE = 50;
const GUESSED_HEIGHT = 110;
/** Windows this near to the visible part are drawn, too. */
const MARGIN = "1200px 0px";

interface WindowsProps<T> {
  readonly items: readonly T[];
  /** Position of the first item in the whole list; may be negative. Items keep their position. */
  readonly start: number;
  readonly draw: (item: T) => ComponentChildren;
  /** The element that scrolls. */
  readonly scroller: { readonly current: HTMLElement | null };
}

export function Windows<T>({ items, start, draw, scroller }: WindowsProps<T>): JSX.Element {
  const first = Math.floor(start / SIZE);
  const last = Math.floor((start + items.length - 1) / SIZE);
  const [near, setNear] = useState<ReadonlySet<number>>(() => new Set([last]));
  const heights = useRef(new Map<number, number>());
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => setNear((before) => withEntries(before, entries, heights.current)),
      { root: scroller.current, rootMargin: MARGIN },
    );
    for (const element of box.current?.children ?? []) observer.observe(element);
    return () => observer.disconnect();
  }, [first, last]);
  const numbers = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
  return (
    <div class="windows" ref={box}>
      {numbers.map((number) => {
        const from = Math.max(0, number * SIZE - start);
        const to = (number + 1) * SIZE - start;
        // The end always stays drawn: it is what grows.
        const isDrawn = near.has(number) || number >= last - 1;
        return (
          <Window
            key={number}
            number={number}
            items={isDrawn ? items.slice(from, to) : undefined}
            height={heights.current.get(number) ?? (Math.min(to, items.length) - from) * GUESSED_HEIGHT}
            draw={draw}
          />
        );
      })}
    </div>
  );
}

function withEntries(
  before: ReadonlySet<number>,
  entries: readonly IntersectionObserverEntry[],
  heights: Map<number, number>,
): ReadonlySet<number> {
  const next = new Set(before);
  for (const { target, isIntersecting, boundingClientRect } of entries) {
    const number = Number((target as HTMLElement).dataset["window"]);
    if (isIntersecting) next.add(number);
    else if (next.delete(number)) heights.set(number, boundingClientRect.height);
  }
  const isSame = next.size === before.size && [...next].every((number) => before.has(number));
  return isSame ? before : next;
}

interface WindowProps {
  readonly number: number;
  /** Undefined: out of sight. */
  readonly items: readonly unknown[] | undefined;
  readonly height: number;
  readonly draw: (item: never) => ComponentChildren;
}

function sameItems(a: readonly unknown[] | undefined, b: readonly unknown[] | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

const Window = memo(
  function Window({ number, items, height, draw }: WindowProps): JSX.Element {
    const element = useRef<HTMLDivElement>(null);
    // Set here: the policy of the page allows no style in its markup.
    useLayoutEffect(() => {
      if (element.current) element.current.style.height = items ? "" : `${height}px`;
    });
    return (
      <div class="window" data-window={number} ref={element}>
        {items?.map((item) => draw(item as never))}
      </div>
    );
  },
  (a, b) =>
    sameItems(a.items, b.items) && (a.items !== undefined || a.height === b.height) && a.draw === b.draw,
);
