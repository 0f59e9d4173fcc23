import assert from "node:assert/strict";
import { test } from "node:test";
import {
  formatCursor,
  Listings,
  markSeen,
  parseCursor,
  wasSeenEarlier,
} from "../../../src/acp/session/list.ts";

test("a cursor survives a round trip, and anything else is invalid", () => {
  for (const key of ["abc", undefined]) {
    const cursor = { listing: "l", page: 3, key };
    assert.deepEqual(parseCursor(formatCursor(cursor)), cursor);
  }
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const bad = [{}, [], ["l", 0, null], ["l", 1.5, null], [1, 1, null], ["l", 1, 2], ["l", 1], null, "l"];
  for (const cursor of ["", "%%", "AAAA", ...bad.map(encode)]) assert.equal(parseCursor(cursor), undefined);
});

test("a session is skipped on later pages but not on its own, which may be requested again", () => {
  const listing = new Listings().begin();
  markSeen(listing, ["a"], 1);
  markSeen(listing, ["a"], 2);
  assert.deepEqual(
    [0, 1, 2, 3].map((page) => wasSeenEarlier(listing, "a", page)),
    [false, false, true, true],
  );
  assert.ok(!wasSeenEarlier(listing, "b", 9));
});

test("only the newest listings are remembered", () => {
  const listings = new Listings();
  const ids = Array.from({ length: 10 }, () => listings.begin().id);
  assert.deepEqual(
    ids.map((id) => listings.find(id) !== undefined),
    ids.map((_, index) => index >= 2),
  );
});
