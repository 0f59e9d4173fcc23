/** The reference of delivery: where messages go, what each platform needs, what becomes of those that do not arrive. */
import { platforms, type PlatformTraits } from "../../src/deliver/target.ts";
import {
  componentSchemas,
  isObject,
  listAt,
  objectAt,
  stringAt,
  type BundledDocument,
  type JsonObject,
} from "./document.ts";
import {
  anchor,
  code,
  join,
  link,
  paragraphs,
  prose,
  table,
  text,
  type Block,
  type Line,
  type Reference,
  type Section,
} from "./reference-model.ts";

interface Chapter {
  readonly title: string;
  readonly text: string;
  readonly head?: readonly string[];
  readonly rows?: readonly (readonly string[])[];
}

const CHAPTERS: readonly Chapter[] = [
  {
    title: "Addresses",
    text: "An address names the target of a message. `deliver` of a webhook route takes several, separated by commas. Messages to different targets are independent: a target that is down does not delay the others.",
    head: ["Address", "Meaning"],
    rows: [
      ["`telegram`", "The platform's home channel, or the chat in `chat_id` of `deliver_extra`."],
      ["`telegram:-1001234`", "A chat."],
      [
        "`telegram:-1001234:17`",
        "A thread or topic of a chat, on platforms that have them. Same as `message_thread_id` or `thread_id` in `deliver_extra`.",
      ],
      ["`sms:+15550100`", "A phone number; an address for `email`."],
      ["`origin`", "The chat that created the job, or `local` if no chat did."],
      ["`all`", "Every platform that has a home channel."],
      ["`local`", "A file in the home."],
      ["`log`", "The start of the text, in the log."],
      ["`webhook`", "A signed POST to `url` in `deliver_extra`."],
      ["`github_comment`", "A comment on `pr_number` of `repo`, both in `deliver_extra`."],
    ],
  },
  {
    title: "Setup",
    text: "`agentd gateway setup` asks for the platform and its settings; `--platform NAME --set key=value` sets them without questions. agentd reads a setting from `extra` in `platforms.<name>`, then from `platforms.<name>`, then from the variable listed beside it, in the environment or `<home>/.env`. Keep secrets in `.env`; in the configuration, `env:NAME` refers to a variable. `agentd platforms list` shows which platforms are ready and which settings are missing. `agentd platforms test NAME --chat-id ID` sends a message.",
  },
  {
    title: "Text",
    text: "Answers are Markdown, which agentd converts to the format of each platform. Platforms that cannot format a part of a word get `*` and `_` there unchanged. In a message that a webhook sends without the agent, the words of the route's `prompt` are Markdown, and the values of the payload are plain text: they never become a link, formatting, a quote or code on any platform.",
  },
  {
    title: "Files",
    text: "A line `MEDIA:path` in an answer sends that file: as a photo, a document or an attachment on `telegram`, `discord`, `slack` (scope `files:write`), `matrix`, `signal` and `email`. The path is absolute or relative to the working folder of the session. The file must be in that folder or in the workspace. It must not be hidden, be a key or contain a registered secret, and may have at most 10 MB; an answer may send at most ten files with 20 MB in total. Otherwise, and on other platforms, the line stays in the text with the reason. The first attempt copies the file to `<home>/outbox`, so that every attempt sends the same bytes; the copy is removed when the message is delivered or deleted. If gateways share a database but not a disk, each sends only the files on its own disk.",
  },
  {
    title: "Retries",
    text: "A message is on disk before agentd confirms it, and survives a crash. A failed attempt is retried after 60, 300 and 1800 seconds (`delivery.retry_seconds`), or when the platform asks for it. A rate limit of the platform does not count as an attempt. Messages to one chat arrive in the order in which they were enqueued. Parts of a long text that have arrived are not sent again. agentd never repeats a run because a chat was unreachable.",
  },
  {
    title: "States",
    text: "Every message has one of these states. `agentd outbox list --status` filters by state; `agentd outbox show ID` lists the attempts and says what to do.",
    head: ["State", "Meaning"],
    rows: [
      ["`due`", "Waits for its next attempt, or for an older message to the same chat."],
      ["`sending`", "A process is sending it."],
      ["`delivered`", "The platform accepted it."],
      [
        "`dead`",
        "Failed: refused permanently, or out of attempts. Fix the cause, then run `agentd outbox retry ID`, or `--all-dead` for all of them.",
      ],
      [
        "`unknown`",
        "Sent without a confirmation, on a platform that does not detect repeats; also a message whose process ended during the request. Check the chat: `retry` if the message is missing, `drop` if it arrived. On platforms that detect repeats the message is sent again automatically, and so is a message whose request had not started.",
      ],
      ["`dropped`", "Dropped with `agentd outbox drop ID`."],
    ],
  },
  {
    title: "Watching",
    text: "`GET /health/detailed` returns these counts in `outbox`, in total and by platform, and the age of the oldest due message. `GET /metrics` has `agentd_outbox_messages`, `agentd_outbox_oldest_due_seconds`, `agentd_delivery_attempts_total` by outcome, and `agentd_delivery_seconds`, the time from enqueueing to delivery. `agentd doctor` reports failed messages and incomplete platforms.",
  },
];

/** Undefined for a configuration without platforms. */
export function deliveryReference(config: BundledDocument, version: string): Reference | undefined {
  const described = Object.entries(platforms).flatMap(([name, traits]) => {
    const settings = settingsOf(config, name);
    return settings ? [{ name, traits, settings }] : [];
  });
  if (described.length === 0) return undefined;
  return {
    title: "agentd delivery",
    version,
    blocks: paragraphs("How messages of the agent, of webhooks and of jobs reach people."),
    sections: [
      ...CHAPTERS.map(chapterSection),
      {
        id: "platforms",
        title: "Platforms",
        nav: "Platforms",
        blocks: table(["Platform", "Through", "Address"], described.map(platformRow)),
        sections: described.map(platformSection),
      },
    ],
  };
}

interface Described {
  readonly name: string;
  readonly traits: PlatformTraits;
  readonly settings: JsonObject;
}

function settingsOf(config: BundledDocument, name: string): JsonObject | undefined {
  const title = `${name.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Settings`;
  const found = componentSchemas(config)[title];
  return isObject(found) ? found : undefined;
}

function chapterSection({ title, text: words, head = [], rows = [] }: Chapter): Section {
  const cells = rows.map((row) => row.map((cell) => prose(cell)));
  return {
    id: anchor("guide", title),
    title,
    nav: title,
    blocks: [...paragraphs(words), ...table(head, cells)],
  };
}

function platformRow({ name, traits, settings }: Described): readonly Line[] {
  const address = { chat: `${name}:<chat>`, "chat:thread": `${name}:<chat>[:<thread>]`, none: name }[
    traits.address
  ];
  return [
    [link(name, anchor("platform", name))],
    prose(stringAt(settings, "description") ?? ""),
    [code(address)],
  ];
}

function platformSection({ name, traits, settings }: Described): Section {
  const rows = Object.entries(objectAt(settings, "properties")).map(([key, schema]) => {
    const variables = listAt(schema, "x-env").map((variable) => [code(String(variable))]);
    const described = isObject(schema) ? schema : {};
    const secret = described["x-secret"] === true ? [text("Secret.")] : [];
    return [
      [code(key)],
      join(variables, ", "),
      join([secret, prose(stringAt(described, "description") ?? "")], " "),
    ];
  });
  const blocks: readonly Block[] = [
    ...paragraphs(stringAt(settings, "description")),
    ...table(["Key", "Variable", "Description"], rows),
  ];
  return { id: anchor("platform", name), title: `${traits.title} (${name})`, blocks };
}
