/**
 * Home Assistant as "REST API" (developers.home-assistant.io/docs/api/rest), "Notifications" and "Persistent
 * Notification" document it; errors come as text.
 */
import { startPlatform, type FakePlatform, type PlatformRoute } from "./fake.ts";

export const HASS_TOKEN = "a-long-lived-token-of-no-house";

const notifySchema = {
  type: "object",
  required: ["message"],
  additionalProperties: false,
  properties: {
    message: { type: "string" },
    title: { type: "string" },
    target: {},
    data: { type: "object" },
  },
} as const;

const notificationSchema = {
  type: "object",
  required: ["message"],
  additionalProperties: false,
  properties: {
    message: { type: "string" },
    title: { type: "string" },
    notification_id: { type: "string" },
  },
} as const;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

export interface FakeHomeAssistant extends FakePlatform {
  /** What stands on the page, by its id. */
  readonly page: ReadonlyMap<string, string>;
}

/** A house with the service notify.mobile_app_phone. */
export async function startHomeAssistant(t: Cleanup): Promise<FakeHomeAssistant> {
  const page = new Map<string, string>();
  const shared: Pick<PlatformRoute, "method" | "refuse" | "invalid"> = {
    method: "POST",
    refuse: ({ headers }) =>
      headers.authorization === `Bearer ${HASS_TOKEN}`
        ? undefined
        : { status: 401, body: "401: Unauthorized" },
    invalid: () => ({ status: 400, body: "400: Bad Request" }),
  };
  const fake = await startPlatform(t, [
    {
      ...shared,
      path: /^\/api\/services\/notify\/([a-z0-9_]+)$/,
      schema: notifySchema,
      answer: (_, match) =>
        match[1] === "mobile_app_phone"
          ? { status: 200, body: [] }
          : { status: 400, body: "400: Bad Request" },
    },
    {
      ...shared,
      path: /^\/api\/services\/persistent_notification\/create$/,
      schema: notificationSchema,
      answer: ({ body = {} }) => {
        page.set(String(body["notification_id"]), String(body["message"]));
        return { status: 200, body: [] };
      },
    },
  ]);
  return { ...fake, page };
}
