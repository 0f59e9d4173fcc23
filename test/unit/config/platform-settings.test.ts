import assert from "node:assert/strict";
import { test } from "node:test";
import {
  misfits,
  platformSettings,
  type PlatformName,
  type PlatformSettings,
} from "../../../src/config/platform-settings.ts";
import { readConfig } from "../../../src/config/config.ts";

function settingsOf<Name extends PlatformName>(name: Name, env: Record<string, string>, file = "") {
  return platformSettings(name, readConfig(file).config, env);
}

test("a word of the environment counts whatever its case and the blanks around it", () => {
  assert.deepEqual(settingsOf("email", { EMAIL_SMTP_TLS: " Required " }), { tls: "required" });
  assert.deepEqual(settingsOf("signal", { SIGNAL_API: "REST" }), { api: "rest" });
  assert.deepEqual(settingsOf("feishu", { FEISHU_DOMAIN: "Lark" }), { domain: "lark" });
});

test("an invalid word in the environment is reported with its key and variable", () => {
  const email = settingsOf("email", { EMAIL_SMTP_TLS: "starttls-canary" });
  assert.deepEqual(misfits("email", email), ["tls as required, implicit or none (EMAIL_SMTP_TLS)"]);
  assert.deepEqual(misfits("signal", settingsOf("signal", { SIGNAL_API: "json" })), [
    "api as rpc or rest (SIGNAL_API)",
  ]);
  assert.deepEqual(misfits("email", settingsOf("email", { EMAIL_SMTP_TLS: "none" })), []);
  assert.deepEqual(misfits("email", {}), []);
});

test("the extra overrides keys beside it, and both override the environment", () => {
  const file =
    "platforms: { telegram: { token: env:MINE, home_channel: beside, extra: { home_channel: inner } } }";
  const env = { MINE: "a-token", TELEGRAM_BOT_TOKEN: "another", TELEGRAM_HOME_CHANNEL: "third" };
  const found: PlatformSettings<"telegram"> = settingsOf("telegram", env, file);
  assert.deepEqual(found, { token: "a-token", home_channel: "inner" });
});

test("a reference to a variable that is not set is missing, and no other variable stands in for it", () => {
  const file = "platforms: { telegram: { token: env:MINE } }";
  assert.deepEqual(settingsOf("telegram", { TELEGRAM_BOT_TOKEN: "another" }, file), {});
  assert.deepEqual(settingsOf("telegram", { MINE: "" }, file), {});
});

test("an invalid address in the environment is reported with its key and variable, not its value", () => {
  const lacks = (name: PlatformName, env: Record<string, string>) => misfits(name, settingsOf(name, env));
  assert.deepEqual(lacks("matrix", { MATRIX_HOMESERVER: "matrix.example.org" }), [
    "homeserver as an address that begins with http:// or https:// (MATRIX_HOMESERVER)",
  ]);
  assert.deepEqual(lacks("wecom", { WECOM_WEBSOCKET_URL: "https://canary" }), [
    "websocket_url as an address that begins with ws:// or wss:// (WECOM_WEBSOCKET_URL)",
  ]);
  assert.deepEqual(lacks("dingtalk", { DINGTALK_WEBHOOK_URL: "canary" }), [
    "webhook_url as an address that begins with http:// or https:// (DINGTALK_WEBHOOK_URL)",
  ]);
  assert.deepEqual(lacks("homeassistant", { HASS_URL: "HTTP://house.example:8123" }), []);
  assert.deepEqual(settingsOf("homeassistant", { HASS_URL: " http://house.example:8123/ \n" }), {
    base_url: "http://house.example:8123/",
  });
});

test("an invalid number or switch in the environment prevents the start, and the error names its variable", () => {
  const issues = (env: Record<string, string>, file = "") =>
    readConfig(file, env).issues.map(({ path, message, severity }) => `${severity}: ${path} ${message}`);
  for (const text of ["abc", "0", "65536", "5.5", "1e3", "NaN", "587 587"]) {
    assert.deepEqual(issues({ EMAIL_SMTP_PORT: text }), [
      "error: EMAIL_SMTP_PORT must be a whole number from 1 to 65535",
    ]);
  }
  assert.deepEqual(issues({ QQ_SANDBOX: "maybe" }), [
    "error: QQ_SANDBOX must be true or false (or 1, 0, yes, no, on, off)",
  ]);
  assert.deepEqual(issues({ EMAIL_SMTP_TLS: "starttls" }), [
    "error: EMAIL_SMTP_TLS must be required, implicit or none",
  ]);
  assert.deepEqual(issues({ EMAIL_SMTP_PORT: " 2525 ", QQ_SANDBOX: "OFF", EMAIL_SMTP_TLS: "None" }), []);
  assert.equal(settingsOf("email", { EMAIL_SMTP_PORT: " 2525 " }).smtp_port, 2525);
  assert.equal(settingsOf("qqbot", { QQ_SANDBOX: "off" }).sandbox, false);
});

test("a wrong variable of a disabled platform, or one that the file overrides, does not prevent the start", () => {
  const env = { EMAIL_SMTP_PORT: "abc" };
  for (const file of [
    "platforms: { email: { enabled: false } }",
    "platforms: { email: { smtp_port: 25 } }",
    "platforms: { email: { extra: { smtp_port: 25 } } }",
  ]) {
    assert.deepEqual(readConfig(file, env).issues, [], file);
  }
});
