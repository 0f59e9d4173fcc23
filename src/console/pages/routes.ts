/**
 * The pages of the console: their addresses, names, and where their code is. Each is a bundle of its own.
 *
 * A page is a pattern in ROUTES, a loader in PAGES and, when it stands in the rail, an entry in NAVIGATION. It draws a
 * PageHeader and a `page-body`; reads lists by useList and single objects by useItem, with the topics of the feed that change
 * them; keeps its filters in the address (ui/filters.tsx); writes by request() and calls refreshTopic() afterwards; and hides
 * what the key may not do (useCan). pages/sessions.tsx is a whole example.
 */
import type { ComponentType } from "preact";
import type { PageProps } from "../router.ts";
import type { IconName } from "../ui/icons.ts";

/** Patterns of addresses; the first that fits is shown. */
export const ROUTES = {
  chat: "/chat/:session?",
  sessions: "/sessions",
  runs: "/runs",
  run: "/runs/:run",
  approvals: "/approvals",
  deliveries: "/webhooks/deliveries",
  delivery: "/webhooks/deliveries/:id",
  dryRun: "/webhooks/dry-run",
  webhooks: "/webhooks",
  route: "/webhooks/:route",
  schedule: "/schedule",
  job: "/schedule/:job",
  outbox: "/outbox",
  message: "/outbox/:id",
  platforms: "/platforms",
  usage: "/usage",
  logs: "/logs",
  settings: "/settings/:section?",
} as const;

export type RouteName = keyof typeof ROUTES;

type PageLoader = () => Promise<ComponentType<PageProps>>;

export const PAGES: Readonly<Record<RouteName, PageLoader>> = {
  chat: () => import("../chat/chat-page.tsx").then(({ ChatPage }) => ChatPage),
  sessions: styled(() => import("./sessions.tsx").then(({ SessionsPage }) => SessionsPage)),
  runs: styled(() => import("./runs.tsx").then(({ RunsPage }) => RunsPage)),
  run: styled(() => import("./run/run-page.tsx").then(({ RunPage }) => RunPage)),
  approvals: styled(() => import("./approvals.tsx").then(({ ApprovalsPage }) => ApprovalsPage)),
  deliveries: styled(() =>
    import("./webhooks/deliveries-page.tsx").then(({ DeliveriesPage }) => DeliveriesPage),
  ),
  delivery: styled(() => import("./webhooks/delivery-page.tsx").then(({ DeliveryPage }) => DeliveryPage)),
  dryRun: styled(() => import("./webhooks/dry-run-page.tsx").then(({ DryRunPage }) => DryRunPage)),
  webhooks: styled(() => import("./webhooks/webhooks-page.tsx").then(({ WebhooksPage }) => WebhooksPage)),
  route: styled(() => import("./webhooks/route-page.tsx").then(({ RoutePage }) => RoutePage)),
  schedule: styled(() => import("./schedule/schedule-page.tsx").then(({ SchedulePage }) => SchedulePage)),
  job: styled(() => import("./schedule/job-page.tsx").then(({ JobPage }) => JobPage)),
  outbox: styled(() => import("./outbox/outbox-page.tsx").then(({ OutboxPage }) => OutboxPage)),
  message: styled(() => import("./outbox/message-page.tsx").then(({ MessagePage }) => MessagePage)),
  platforms: styled(() => import("./platforms.tsx").then(({ PlatformsPage }) => PlatformsPage)),
  usage: styled(() => import("./usage.tsx").then(({ UsagePage }) => UsagePage)),
  logs: styled(() => import("./logs.tsx").then(({ LogsPage }) => LogsPage)),
  settings: styled(() => import("./settings/settings-page.tsx").then(({ SettingsPage }) => SettingsPage)),
};

/** Loads a page with the styles that the chat does without. */
function styled(load: PageLoader): PageLoader {
  return async () => {
    const [page] = await Promise.all([load(), import("../styles/pages.css")]);
    return page;
  };
}

interface NavEntry {
  readonly route: RouteName;
  readonly href: string;
  readonly label: string;
  readonly icon: IconName;
  /** The key after `g` that opens it. */
  readonly key: string;
}

/** The rail. On a phone the first four are at the bottom, the others behind "More". */
export const NAVIGATION: readonly NavEntry[] = [
  { route: "chat", href: "/chat", label: "Chat", icon: "chat", key: "c" },
  { route: "approvals", href: "/approvals", label: "Approvals", icon: "approvals", key: "a" },
  { route: "runs", href: "/runs", label: "Runs", icon: "runs", key: "r" },
  { route: "webhooks", href: "/webhooks", label: "Webhooks", icon: "webhooks", key: "w" },
  { route: "sessions", href: "/sessions", label: "Sessions", icon: "sessions", key: "s" },
  { route: "schedule", href: "/schedule", label: "Schedule", icon: "schedule", key: "t" },
  { route: "outbox", href: "/outbox", label: "Outbox", icon: "outbox", key: "o" },
  { route: "platforms", href: "/platforms", label: "Platforms", icon: "platforms", key: "p" },
  { route: "usage", href: "/usage", label: "Usage", icon: "usage", key: "u" },
  { route: "logs", href: "/logs", label: "Logs", icon: "logs", key: "l" },
  { route: "settings", href: "/settings", label: "Settings", icon: "settings", key: "e" },
];
