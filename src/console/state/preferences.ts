/** What one person prefers in one browser. */
import { createStore, type Store } from "./store.ts";

export type Theme = "system" | "light" | "dark";

const THEME = "agentd.theme";
const SHORTCUTS = "agentd.shortcuts";

const themeStore = createStore<Theme>(readTheme());
export const theme: Store<Theme> = themeStore;

function readTheme(): Theme {
  const kept = localStorage.getItem(THEME);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function chooseTheme(chosen: Theme): void {
  localStorage.setItem(THEME, chosen);
  themeStore.update(() => chosen);
  applyTheme();
}

/** Puts the theme on the page; `system` follows the machine. */
export function applyTheme(): void {
  const chosen = themeStore.get();
  const { dataset } = document.documentElement;
  if (chosen === "system") delete dataset["theme"];
  else dataset["theme"] = chosen;
}

const shortcutStore = createStore(localStorage.getItem(SHORTCUTS) !== "off");
/** Whether single keys act. People who dictate switch them off (WCAG 2.1.4). */
export const hasShortcuts: Store<boolean> = shortcutStore;

export function switchShortcuts(isOn: boolean): void {
  localStorage.setItem(SHORTCUTS, isOn ? "on" : "off");
  shortcutStore.update(() => isOn);
}
