/** What the agent is asked when an event arrives. Pure but for the marks, which are random. */
import { Fence } from "../../agent/context/fence.ts";
import { skillInstructions, type ReportedSkill } from "../../agent/skills/skills.ts";
import type { WebhookSubject } from "./field.ts";
import { renderRoute, type RenderedRoute } from "./template.ts";

export interface PromptedRoute extends RenderedRoute {
  /** True: what the sender writes counts like the route's own words, and is not marked as data. */
  readonly trustsSender: boolean;
}

/** A word, a number, a hash, a short path: too little to instruct anybody with, and easier to read without marks. */
const PLAIN = /^[A-Za-z0-9_.:/@#+-]{1,100}$/;
const HASH = /^[0-9a-f]{7,64}$/;
/** Dashes and dots make sentences as well as spaces do. */
const MAX_WORDS = 4;

/**
 * The skill of the route, then its text, in which what the sender wrote stands between marks that the sender cannot know:
 * a signature proves who sent an event, not that the titles and comments in it mean well.
 */
export function renderPrompt(route: PromptedRoute, subject: WebhookSubject, skill?: ReportedSkill): string {
  const fence = new Fence("webhook-data");
  const around = (text: string) => (isPlain(text) ? text : fence.around(text));
  const text = renderRoute(route, subject, route.trustsSender ? undefined : around);
  const parts = [
    ...(skill ? [skillInstructions(skill)] : []),
    ...(fence.isUsed ? [fence.notice(ORIGIN)] : []),
    text,
  ];
  return parts.join("\n\n");
}

const ORIGIN = "was written by whoever caused this event";

function isPlain(text: string): boolean {
  if (!PLAIN.test(text)) return false;
  return HASH.test(text) || text.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])/).filter(Boolean).length <= MAX_WORDS;
}
