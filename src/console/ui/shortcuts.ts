/** The keys of the console: pages, rows and what opens over the page. */
import { useEffect, useRef } from "preact/hooks";
import { NAVIGATION } from "../pages/routes.ts";
import { navigate } from "../router.ts";
import { hasShortcuts } from "../state/preferences.ts";

/** What is open over the page. */
export type Overlay = "palette" | "keys" | undefined;

/** Keys that follow within this time belong together. */
const SEQUENCE_MS = 1_200;

/** Acts on the keys of the console, wherever the focus is but in fields. */
export function useShortcuts(show: (overlay: Overlay) => void): void {
  const lastG = useRef(0);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isPalette = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
      if (isPalette) {
        event.preventDefault();
        return show("palette");
      }
      if (event.ctrlKey || event.metaKey || event.altKey || !hasShortcuts.get() || isTyping(event.target))
        return;
      const follows = event.timeStamp - lastG.current < SEQUENCE_MS;
      lastG.current = event.key === "g" ? event.timeStamp : 0;
      const page = follows ? NAVIGATION.find(({ key }) => key === event.key) : undefined;
      if (page) navigate(page.href);
      else if (event.key === "?") show("keys");
      else if (event.key === "n") navigate("/chat/new");
      else if (event.key === "/")
        document.querySelector<HTMLElement>("[data-search], .composer textarea")?.focus();
      else if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof Element && target.closest("input, textarea, select, dialog, [contenteditable]") !== null
  );
}

function moveRow(step: number): void {
  const links = [...document.querySelectorAll<HTMLElement>("#main .table-link")];
  const at = links.indexOf(document.activeElement as HTMLElement);
  const next =
    at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step));
  links[next]?.focus();
}
