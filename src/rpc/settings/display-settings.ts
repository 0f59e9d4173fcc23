/** What hosts show, as `display` of the configuration keeps it: under the names by which hosts ask for it. */
import { ServiceError } from "../../base/errors.ts";

/** A key of hosts, and where the file has it. */
export interface DisplaySetting {
  readonly key: string;
  /** In the file. */
  readonly at: string;
  /** Values in their order, where one may be asked for the next; undefined where any text of the schema will do. */
  readonly choices?: readonly string[];
  /** On and off are true and false. */
  readonly isSwitch?: boolean;
}

const SECTIONS = ["thinking", "tools", "subagents", "activity"];

const SETTINGS: readonly DisplaySetting[] = [
  { key: "skin", at: "display.skin" },
  { key: "indicator", at: "display.indicator" },
  { key: "details_mode", at: "display.details_mode", choices: ["hidden", "collapsed", "expanded"] },
  { key: "thinking_mode", at: "display.thinking_mode", choices: ["collapsed", "truncated", "full"] },
  { key: "verbose", at: "display.tool_progress", choices: ["off", "new", "all", "verbose"] },
  { key: "statusbar", at: "display.statusbar", choices: ["off", "top", "bottom"] },
  { key: "compact", at: "display.compact", isSwitch: true },
  { key: "mouse", at: "display.mouse", isSwitch: true },
  ...SECTIONS.map((name) => ({ key: `details_mode.${name}`, at: `display.sections.${name}` })),
];

/** Undefined for keys that are no setting of the display. */
export function displaySetting(key: string): DisplaySetting | undefined {
  return SETTINGS.find((setting) => setting.key === key);
}

/**
 * What the file is to hold, as it is typed there; undefined takes the key out of it. `now` is what holds: a switch that
 * is given nothing, and a choice that is given `cycle`, go on from there. ServiceError `bad_value` for what is no text.
 */
export function displayValue(setting: DisplaySetting, value: unknown, now: unknown): string | undefined {
  if (setting.isSwitch) return String(inputOf(value) ?? now !== true);
  if (typeof value !== "string") throw notText(setting.key);
  const text = value.trim();
  const { choices } = setting;
  if (choices && text === "cycle") return choices[(choices.indexOf(String(now)) + 1) % choices.length];
  if (setting.key === "statusbar" && ["", "toggle", "on"].includes(text)) {
    return text === "on" || now === "off" ? "bottom" : "off";
  }
  return text === "" || text === "default" || text === "reset" ? undefined : text;
}

/** Undefined: the other way round. ServiceError `bad_value`. */
export function inputOf(value: unknown): boolean | undefined {
  if (value === "" || value === null || value === "toggle") return undefined;
  if ([true, 1, "1", "on", "true", "yes"].some((yes) => yes === value)) return true;
  if ([false, 0, "0", "off", "false", "no"].some((no) => no === value)) return false;
  throw new ServiceError("bad_value", "The value must be on or off, or empty to switch.", { param: "value" });
}

const notText = (key: string) => new ServiceError("bad_value", `${key} must be a text.`, { param: "value" });
