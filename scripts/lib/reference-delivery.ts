/** The reference of delivery: where messages go, what each platform needs, what becomes of those that do not arrive. */
import { platforms, type PlatformTraits } from "../../src/deliver/message.ts";
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
    text: "Where a message goes is written as an address; `deliver` of a webhook's route takes several, with commas between them. Each is told on its own: one that is down keeps none of the others waiting.",
    head: ["Address", "Meaning"],
    rows: [
      ["`telegram`", "The platform's home channel, unless `chat_id` in `deliver_extra` names a chat."],
      ["`telegram:-1001234`", "A chat."],
      [
        "`telegram:-1001234:17`",
        "A thread or topic of a chat, on platforms that have them. `message_thread_id` or `thread_id` in `deliver_extra` says the same.",
      ],
      ["`sms:+15550100`", "A phone number; an address for `email`."],
      ["`origin`", "Whoever asked; where nobody did, `local`."],
      ["`all`", "Every platform that has a home channel."],
      ["`local`", "A file in the home."],
      ["`log`", "The start of the text, in the log."],
      ["`webhook`", "A signed POST to `url` in `deliver_extra`."],
      ["`github_comment`", "A comment on `pr_number` of `repo`, both in `deliver_extra`."],
    ],
  },
  {
    title: "Setting up",
    text: "`agentd gateway setup` asks which platform and what it needs; `--platform NAME --set key=value` says it without questions. A key stands in the configuration, in `platforms.<name>` or its `extra`, which goes first, else in the environment or `<home>/.env`, under the variable beside it. Secrets belong into `.env`; in the file, `env:NAME` refers to a variable. `agentd platforms list` shows what is ready and what lacks, `agentd platforms test NAME --chat-id ID` sends a real message now.",
  },
  {
    title: "Retries",
    text: "A message is on disk before anybody is told that it will be sent, and survives a crash. What a platform does not take is tried again after 60, 300 and 1800 seconds (`delivery.retry_seconds`), or when the platform asks for it; being asked to slow down costs no attempt. Messages to one chat arrive in the order in which they were owed. Of a long text, parts that arrived are not sent again. The agent is never run again because a chat was down.",
  },
  {
    title: "States",
    text: "Every message stands in one of these; `agentd deliveries list --status` chooses, and `show ID` tells of each attempt, and what to do.",
    head: ["State", "Meaning"],
    rows: [
      ["`due`", "It waits for its next attempt, or for an older message to the same chat."],
      ["`sending`", "A process is sending it."],
      ["`delivered`", "The platform took it."],
      [
        "`dead`",
        "It was given up: refused for good, or no attempt was left. `agentd outbox retry ID` sends it once the cause is mended, `--all-dead` all of them.",
      ],
      [
        "`unknown`",
        "It was sent, and no answer told whether it arrived, on a platform that cannot tell a repeat; so is one whose process ended during the request. Look in the chat: `retry` when it is not there, `drop` when it is. On platforms that know repeats it is sent again by itself, and so is one whose request had not begun.",
      ],
      ["`dropped`", "`agentd deliveries drop ID` gave it up."],
    ],
  },
  {
    title: "Watching",
    text: "`GET /health/detailed` has `outbox` with these counts, by platform too, and the age of the oldest that is due. `GET /metrics` has `agentd_outbox_messages`, `agentd_outbox_oldest_due_seconds`, `agentd_delivery_attempts_total` by outcome, and `agentd_delivery_seconds` from owed to delivered. `agentd doctor` names what was given up and what is half set up.",
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
    blocks: paragraphs("How messages of the agent and of webhooks reach people."),
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
