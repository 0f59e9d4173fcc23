/** The platforms that messages can go to, for those who read addresses. Pure. */

export interface PlatformTraits {
  /** As people write it. */
  readonly title: string;
  /**
   * What an address means behind the platform's name: a chat with an optional thread behind a colon, a chat that may have
   * colons in it, or nothing.
   */
  readonly address: "chat" | "chat:thread" | "none";
}

export const platforms = {
  log: { title: "Log", address: "none" },
  local: { title: "File in the home", address: "none" },
  webhook: { title: "Webhook", address: "none" },
  github_comment: { title: "GitHub comment", address: "none" },
  telegram: { title: "Telegram", address: "chat:thread" },
  discord: { title: "Discord", address: "chat:thread" },
  slack: { title: "Slack", address: "chat:thread" },
  signal: { title: "Signal", address: "chat" },
  sms: { title: "SMS", address: "chat" },
  email: { title: "Email", address: "chat" },
  whatsapp: { title: "WhatsApp", address: "chat" },
  matrix: { title: "Matrix", address: "chat:thread" },
  mattermost: { title: "Mattermost", address: "chat:thread" },
  homeassistant: { title: "Home Assistant", address: "chat" },
  dingtalk: { title: "DingTalk", address: "chat" },
  feishu: { title: "Feishu", address: "chat:thread" },
  wecom: { title: "WeCom", address: "chat" },
  weixin: { title: "WeChat", address: "chat" },
  bluebubbles: { title: "BlueBubbles", address: "chat" },
  qqbot: { title: "QQ", address: "chat" },
} as const satisfies Readonly<Record<string, PlatformTraits>>;
