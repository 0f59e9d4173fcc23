import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { platformKeys, type PlatformName } from "../../../src/config/platform-settings.ts";
import { readConfig } from "../../../src/config/config.ts";
import { MESSAGE_STATUSES } from "../../../src/store/outbox/messages.ts";

const page = readFile(new URL("../../../generated/reference/delivery.md", import.meta.url), "utf8");

test("every platform has its place, with each key, its variables, and which are secret", async () => {
  const text = await page;
  const names = Object.keys(readConfig("").config.platforms).filter((name) => name !== "webhook");
  assert.ok(names.length >= 17);
  for (const name of names as readonly PlatformName[]) {
    const [, section = ""] = text.split(` (${name.replaceAll("_", "\\_")})\n`);
    for (const { key, variables, isSecret } of platformKeys(name)) {
      const row = section.split("\n").find((line) => line.startsWith(`| \`${key}\` |`)) ?? "";
      assert.ok(row !== "", `${name}.${key}`);
      for (const variable of variables)
        assert.ok(row.includes(`\`${variable}\``), `${name}.${key} ${variable}`);
      assert.equal(row.includes("| Secret."), isSecret, `${name}.${key}`);
    }
  }
});

test("every state of a message is explained", async () => {
  const text = await page;
  for (const status of MESSAGE_STATUSES) {
    const shown = status === "leased" ? "sending" : status;
    assert.ok(text.includes(`| \`${shown}\` |`), shown);
  }
});
