/**
 * Services that name their events in headers of their own. The placeholder names of the interface's description are
 * rows too, so that its examples work as they are written.
 */
export interface WebhookSource {
  readonly eventHeader: string;
  /** The same for every attempt at one delivery. */
  readonly deliveryHeader?: string;
  /** Carries the secret itself. */
  readonly tokenHeader?: string;
}

/** In the order in which they are looked for. Header names in lower case. */
export const WEBHOOK_SOURCES: readonly WebhookSource[] = [
  { eventHeader: "x-github-event", deliveryHeader: "x-github-delivery" },
  { eventHeader: "x-gitlab-event", tokenHeader: "x-gitlab-token" },
  { eventHeader: "x-hosta-event", deliveryHeader: "x-hosta-delivery" },
  { eventHeader: "x-hostb-event", tokenHeader: "x-hostb-token" },
  { eventHeader: "x-gitea-event", deliveryHeader: "x-gitea-delivery" },
  { eventHeader: "x-forgejo-event", deliveryHeader: "x-forgejo-delivery" },
  { eventHeader: "x-event-key", deliveryHeader: "x-request-uuid" },
];
