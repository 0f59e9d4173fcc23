import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { loadConfig } from "../../../src/config/config.ts";
import { platforms } from "../../../src/cli/doctor/platforms.ts";
import { openTestStore } from "../../harness/store.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";

const TOKEN = "canary-of-the-tests";

async function look(settings: object, { env = {}, mode = 0o600 } = {}) {
  await using made = await createHome({ "config.yaml": JSON.stringify({ platforms: settings }) });
  await chmod(join(made.home, "config.yaml"), mode);
  const verdict = await platforms(await loadConfig({ home: made.home, env }));
  assert.ok(!JSON.stringify(verdict).includes(TOKEN));
  return { ...verdict, detail: verdict.detail.replace(made.home, "<home>") };
}

describe("agentd doctor on platforms", () => {
  it("accepts a home without platforms, and configured ones", async () => {
    assert.deepEqual(await look({}), {
      status: "ok",
      detail: "none is set up; run `agentd gateway setup` to add one",
    });
    assert.match(
      (await look({ telegram: { token: TOKEN } })).detail,
      /^telegram; test one with `agentd platforms test`$/,
    );
  });

  it("names the missing settings of an incomplete platform, from the file or the environment", async () => {
    for (const [settings, env] of [
      [{ telegram: { home_channel: "-1" } }, {}],
      [{}, { TELEGRAM_HOME_CHANNEL: "-1" }],
      [{ telegram: { token: "env:NOWHERE", home_channel: "-1" } }, {}],
    ] as const) {
      const { status, detail, fix } = await look(settings, { env });
      assert.deepEqual(
        [status, detail],
        ["warn", "telegram is incomplete; missing: token (TELEGRAM_BOT_TOKEN)"],
      );
      assert.match(fix ?? "", /agentd gateway setup --platform telegram/);
    }
  });

  it("warns about keys of a disabled platform", async () => {
    const { status, detail } = await look({ telegram: { enabled: false, token: TOKEN } });
    assert.deepEqual([status, detail], ["warn", "telegram is disabled, but these keys are set: token"]);
    assert.equal((await look({ telegram: { enabled: false } })).status, "ok");
  });

  it("fails for secrets in a file that other users can read, but not for references", async () => {
    const { status, detail, fix } = await look({ telegram: { extra: { token: TOKEN } } }, { mode: 0o644 });
    assert.deepEqual(
      [status, detail],
      ["fail", "<home>/config.yaml holds secrets of telegram and is open to other users"],
    );
    assert.match(fix ?? "", /^chmod 600 /);
    const referring = await look({ telegram: { token: "env:MINE" } }, { mode: 0o644, env: { MINE: TOKEN } });
    assert.equal(referring.status, "ok");
  });
});

/** The doctor as a process: which database it looks at is the environment's to say. */
async function outboxFinding(
  t: TestContext,
  fill: (store: Awaited<ReturnType<typeof openTestStore>>["store"]) => Promise<void>,
) {
  await using made = await createHome();
  const { store, url } = await openTestStore(t);
  await fill(store);
  const { stdout } = await keptAgentd(["doctor", "--json"], {
    AGENTD_HOME: made.home,
    AGENTD_DATABASE_URL: url,
  });
  const { findings } = JSON.parse(stdout) as {
    readonly findings: readonly {
      readonly name: string;
      readonly status: string;
      readonly detail: string;
      readonly fix?: string;
    }[];
  };
  return findings.find(({ name }) => name === "outbox") ?? assert.fail(stdout);
}

describe("agentd doctor on the outbox", () => {
  it("counts queued messages and accepts them", async (t) => {
    const { status, detail } = await outboxFinding(t, async (store) => {
      await store.write((tx) =>
        store.outbox.enqueue(tx, { owner: "default", target: "telegram:-1", payload: {} }),
      );
    });
    assert.deepEqual([status, detail], ["ok", "pending messages: 1"]);
  });

  it("reports given-up, unconfirmed and delayed messages by platform, without addresses", async (t) => {
    const { status, detail, fix } = await outboxFinding(t, async (store) => {
      for (const [target, set] of [
        ["telegram:-100private", { status: "dead" }],
        ["telegram:-100private", { status: "dead" }],
        ["slack:Cprivate", { status: "unknown" }],
        ["sms:+1555private", { created_at: Date.now() - 7_260_000 }],
      ] as const) {
        await store.write(async (tx) => {
          const id = await store.outbox.enqueue(tx, {
            owner: "default",
            target,
            payload: {},
            orderingKey: null,
          });
          await tx.update("outbox", { id }, set);
        });
      }
    });
    assert.equal(status, "warn");
    assert.match(
      detail,
      /^2 given up \(telegram 2\); 1 may have arrived \(slack 1\); the oldest due message has waited for 12[12] minutes$/,
    );
    assert.match(fix ?? "", /See `agentd outbox list`.*Is `agentd gateway` running\?/);
  });
});
