import assert from "node:assert/strict";
import { test } from "node:test";
import { offTracer } from "../../../src/base/observe.ts";
import { readConfig } from "../../../src/config/config.ts";
import type { Environment } from "../../../src/config/home.ts";
import {
  createPlatformTargets,
  missingSettings,
  platformState,
} from "../../../src/deliver/platform/platforms.ts";
import type { Delivery } from "../../../src/deliver/target.ts";
import { platformParts } from "../../harness/platforms/send.ts";

const { config } = readConfig("");
const parts = (env: Environment) => platformParts({ env: { ...env } });

const delivery: Delivery = {
  id: "out_01",
  address: "",
  payload: { text: "Hello", extra: {} },
  ref: undefined,
  attempt: 1,
  partsSent: 0,
  createdAtMs: 0,
};
const options = {
  signal: new AbortController().signal,
  span: offTracer.start("send", {}),
  progress: async () => {},
};

const mail = { EMAIL_ADDRESS: "agent@example.org", EMAIL_SMTP_HOST: "127.0.0.1", EMAIL_PASSWORD: "kw9" };

test("an invalid value of an environment variable keeps the platform from sending", async () => {
  assert.equal((await platformState("email", config, parts(mail))).status, "ready");
  const wrong = await platformState("email", config, parts({ ...mail, EMAIL_SMTP_TLS: "starttls" }));
  assert.deepEqual(wrong, {
    status: "incomplete",
    missing: ["tls as required, implicit or none (EMAIL_SMTP_TLS)"],
  });
  assert.deepEqual(
    await missingSettings("signal", { base_url: "http://h", account: "+1", api: "x" as "rpc" }),
    ["api as rpc or rest (SIGNAL_API)"],
  );
});

test("a platform without settings reports what is missing with its first message, also for two at once", async () => {
  const targets = await createPlatformTargets(config, parts({}));
  const signal = targets.find(({ name }) => name === "signal");
  assert.ok(signal);
  const ends = await Promise.all([signal.send(delivery, options), signal.send(delivery, options)]);
  for (const end of ends) {
    assert.equal(end.status, "retry");
    assert.match(
      "error" in end ? end.error : "",
      /base_url \(SIGNAL_HTTP_URL\) and account \(SIGNAL_ACCOUNT\)/,
    );
  }
});

test("an enabled platform without settings is not configured, and a disabled one is reported as disabled", async () => {
  const on = readConfig("platforms: { telegram: { enabled: true } }").config;
  assert.deepEqual(await platformState("telegram", on, parts({})), {
    status: "incomplete",
    missing: ["token (TELEGRAM_BOT_TOKEN)"],
  });
  const off = readConfig("platforms: { telegram: { enabled: false } }").config;
  const env = { TELEGRAM_BOT_TOKEN: "a-token" };
  assert.deepEqual(await platformState("telegram", off, parts(env)), { status: "disabled" });
});

test("concurrent messages to a platform without settings share one target", async () => {
  let asked = 0;
  // Each target of github_comment looks for its tokens once.
  const env = new Proxy({} as Record<string, string>, {
    get(_, name) {
      if (name === "GITHUB_ENTERPRISE_TOKEN") asked += 1;
      return undefined;
    },
  });
  const targets = await createPlatformTargets(config, { ...platformParts(), env });
  const github = targets.find(({ name }) => name === "github_comment");
  asked = 0;
  await Promise.all([1, 2, 3].map(() => github?.send(delivery, options)));
  const once = asked;
  await github?.send(delivery, options);
  assert.equal(asked, once);
  // Its own look and the one for what gh is passed.
  assert.equal(once, 2);
});
