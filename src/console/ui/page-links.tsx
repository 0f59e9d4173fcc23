/** Pages of one subject as tabs: each has an address of its own. */
import type { JSX } from "preact";
import { address } from "../router.ts";
import { useStore } from "../state/store.ts";

interface PageLinksProps {
  readonly label: string;
  readonly links: readonly (readonly [href: string, word: string])[];
}

export function PageLinks({ label, links }: PageLinksProps): JSX.Element {
  const path = useStore(address, (value) => value.path);
  return (
    <nav class="tabs" aria-label={label}>
      {links.map(([href, word]) => (
        <a key={href} class="tab" href={href} aria-current={path === href ? "page" : undefined}>
          {word}
        </a>
      ))}
    </nav>
  );
}
