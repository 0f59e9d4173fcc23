import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { createOwner, isOwnerDead, retireOwner } from "../../../src/store/leases.ts";
import { openTestStore } from "../../harness/store.ts";
import { startChild } from "./child.ts";

test("an owner is host, pid and nonce", () => {
  assert.match(createOwner("my-host"), new RegExp(`^my-host:${process.pid}:[0-9a-f]{12}$`));
  assert.notEqual(createOwner(), createOwner());
});

test("an owner of this process is alive until it retires; an earlier life of our pid is dead", () => {
  const [self, other] = [createOwner("h"), createOwner("h")];
  assert.equal(isOwnerDead(self, self), false);
  assert.equal(isOwnerDead(other, self), false);
  retireOwner(other);
  assert.equal(isOwnerDead(other, self), true);
  assert.equal(isOwnerDead(`h:${process.pid}:0123456789ab`, self), true);
});

test("owners of other hosts, and invalid names, are never dead", () => {
  const self = createOwner("h");
  const unknown = [
    `other:${process.pid}:0123456789ab`,
    "",
    "h",
    "h:1",
    "h:x:ab",
    "h:0:ab",
    "h:-1:ab",
    ":1:ab",
    "h:1:ab:",
  ];
  for (const owner of unknown) assert.equal(isOwnerDead(owner, self), false, owner);
});

test("a host name may hold colons", () => {
  const self = createOwner("fe80::1");
  assert.equal(isOwnerDead(`fe80::1:${process.pid}:0123456789ab`, self), true);
});

test("an owner is dead once its process has ended, and not before", async (t) => {
  const { store, url } = await openTestStore(t);
  const child = startChild("./child-sender.ts", [url]);
  t.after(async () => void child.process.kill("SIGKILL"));
  const line = await child.lines[Symbol.asyncIterator]().next();
  const { owner } = line.value as { owner: string };
  assert.equal(store.ownerIsDead(owner), false);
  child.process.kill("SIGKILL");
  await child.exit;
  assert.equal(store.ownerIsDead(owner), true);
  assert.equal(store.ownerIsDead(store.owner), false);
});

test("a process of another user is alive", { skip: process.getuid?.() === 0 }, () => {
  assert.equal(isOwnerDead("h:1:0123456789ab", createOwner("h")), false);
});
