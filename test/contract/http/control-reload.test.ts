/** Reloading, checking and restoring an installation over the control API. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { sql } from "kysely";
import type {
  BackupImport,
  Doctor,
  FeedEvent,
  ServiceReload,
  Session,
} from "../../../generated/http/client/types.gen.ts";
import { restoreStaged } from "../../../src/app/backup/restore.ts";
import { stagedRestorePath } from "../../../src/config/restore.ts";
import { openStore } from "../../../src/store/open.ts";
import { createSession, storedEvents } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { startTestService, type TestService } from "../../harness/service.ts";

const folder = (service: TestService) => join(service.home, "agentd");

async function writeHome(service: TestService, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(folder(service), { recursive: true });
  for (const [name, text] of Object.entries(files))
    await writeFile(join(folder(service), name), text, { mode: 0o600 });
}

const RELOAD = "/v1/service/reload";

scenario(
  "reloadService",
  200,
  { title: "variables and settings that may change are in use, and the others are named" },
  async (service) => {
    await writeHome(service, {
      ".env": "NEW_ONE=1\nNEW_TWO=2\n",
      "config.yaml": "log: { level: error }\nagent: { max_steps: 7 }\n",
    });
    const response = await post(service, RELOAD, {});
    const done = (await response.json()) as ServiceReload;
    assert.deepEqual(done, {
      object: "agent.service.reload",
      env: { changed: 2 },
      config: { applied: ["log.level"], restart_required: ["agent.max_steps"] },
    });
    const before = service.logLines.length;
    service.service.agent.deps.log.warn("not any more");
    assert.equal(service.logLines.length, before);
    const again = (await (await post(service, RELOAD, { what: ["config"] })).json()) as ServiceReload;
    assert.deepEqual([again.env, again.config?.applied], [null, []]);
    const events = await storedEvents<FeedEvent>(service, "?types=config.updated");
    assert.deepEqual(
      events.map(({ actor, data }) => [actor, data["changed"], data["restart_required"]]),
      [["default", ["log.level"], ["agent.max_steps"]]],
    );
  },
);

scenario("reloadService", 200, { title: "a repeated request reloads once" }, async (service) => {
  const once = { "idempotency-key": "k" };
  await writeHome(service, { ".env": "A=1\n" });
  const first = await (await post(service, RELOAD, {}, once)).json();
  await writeHome(service, { ".env": "A=2\n" });
  const again = await post(service, RELOAD, {}, once);
  assert.equal(again.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(await again.json(), first);
});

scenario("reloadService", 409, { title: "an Idempotency-Key that another request used" }, async (service) => {
  const once = { "idempotency-key": "k" };
  await post(service, RELOAD, { what: ["env"] }, once);
  await assertError(await post(service, RELOAD, {}, once), 409, "idempotency_key_conflict");
});

scenario(
  "reloadService",
  400,
  { title: "an invalid file changes nothing, and each of its mistakes is listed" },
  async (service) => {
    await writeHome(service, {
      "config.yaml": "log: { level: error }\nagent: { max_steps: many, other: 1 }\n",
    });
    const refused = await post(service, RELOAD, { what: ["config"] });
    const error = (await assertError(refused, 400, "invalid_config")) as unknown as {
      readonly details: { readonly issues: readonly { readonly path: string }[] };
    };
    assert.deepEqual(error.details.issues.map(({ path }) => path).toSorted(), [
      "agent.max_steps",
      "agent.other",
    ]);
    service.service.agent.deps.log.info("still here");
    assert.ok(service.logLines.at(-1)?.includes("still here"));
    await assertError(await post(service, RELOAD, { what: ["all"] }), 400, "invalid_request");
  },
);

scenario(
  "getDoctor",
  200,
  { title: "the findings of the checks, and the most severe of them" },
  async (service) => {
    await writeHome(service, {
      ".env": "A=secret-value-0123456789\n",
      "config.yaml": "terminal: { sandbox: off }\n",
    });
    const response = await service.request("/v1/service/doctor");
    const { object, status, findings } = (await response.json()) as Doctor;
    assert.equal(object, "agent.doctor");
    const names = findings.map(({ name }) => name);
    for (const name of ["runtime", "home", "config", "database", "model", "outbox", "cron"])
      assert.ok(names.includes(name), name);
    assert.ok(!names.includes("port"), "the port is its own");
    const worst = ["fail", "warn"].find((each) => findings.some((finding) => finding.status === each));
    assert.equal(status, worst ?? "ok");
    assert.equal(findings.find(({ name }) => name === "sandbox")?.status, "warn");
    assert.ok(findings.find(({ name }) => name === "home")?.detail.includes(folder(service)));
  },
);

scenario("getDoctor", 400, { title: "a parameter, of which it has none" }, async (service) => {
  await assertError(await service.request("/v1/service/doctor?fix=true"), 400, "unsupported_parameter");
});

const IMPORT = "/v1/backup/import";

const upload = (
  service: TestService,
  archive: Uint8Array<ArrayBuffer>,
  { query = "", headers = {} }: { readonly query?: string; readonly headers?: Record<string, string> } = {},
) =>
  service.request(IMPORT + query, {
    method: "POST",
    body: archive,
    headers: { "content-type": "application/gzip", ...headers },
  });

async function download(service: TestService, body: object = {}): Promise<Uint8Array<ArrayBuffer>> {
  const response = await post(service, "/v1/backup", body);
  assert.equal(response.status, 200, response.status === 200 ? "" : await response.text());
  return new Uint8Array(await response.arrayBuffer());
}

const contextOf = (service: TestService) => ({ env: {}, userHome: service.home, home: folder(service) });

async function assertExpired(service: TestService, cursor: string): Promise<void> {
  for (const accept of ["application/json", "text/event-stream"]) {
    const expired = await service.request(`/v1/events?after=${cursor}`, { headers: { accept } });
    await assertError(expired, 410, "events_expired");
  }
}

/** PostgreSQL: the database comes back with its own tools, here to a server that has made fewer transactions. */
async function startOnForeignDump(service: TestService, cursor: string): Promise<void> {
  await service.service.store.write((tx) => sql`update changes set tx = tx + 900000000000000`.execute(tx.db));
  await using restored = await service.restart();
  await assertExpired(restored, cursor);
  await createSession(restored, "later");
  const ids = (await storedEvents<FeedEvent>(restored)).flatMap(({ type, data }) =>
    type === "session.created" ? [data.id] : [],
  );
  assert.deepEqual(ids, ["later"]);
}

scenario(
  "importBackup",
  202,
  { title: "after a restore an old cursor is 410, never a silent skip" },
  async (service) => {
    await writeHome(service, { "config.yaml": "agent: { max_steps: 7 }\n", ".env": "KEEP=1\n", note: "old" });
    await createSession(service, "before");
    const archive = await download(service);
    await writeHome(service, { note: "new", later: "gone after the restore" });
    await createSession(service, "after");
    const cursor = (await storedEvents<FeedEvent>(service)).at(-1)?.id ?? "";
    const tried = await upload(service, archive, { query: "?dry_run=true" });
    assert.deepEqual([tried.status, tried.headers.get("x-agent-dry-run")], [202, "true"]);
    assert.ok(!existsSync(stagedRestorePath(folder(service))));
    const once = { "idempotency-key": "k" };
    const response = await upload(service, archive, { headers: once });
    const staged = (await response.json()) as BackupImport;
    assert.equal(response.status, 202, JSON.stringify(staged));
    assert.deepEqual(
      [staged.object, staged.secrets, staged.omitted.includes(".env")],
      ["agent.backup.import", false, true],
    );
    assert.ok(staged.files > 0);
    assert.equal(
      (await upload(service, archive, { headers: once })).headers.get("idempotency-replayed"),
      "true",
    );
    assert.equal(
      await readFile(join(folder(service), "note"), "utf8"),
      "new",
      "nothing changes before the start",
    );

    await using next = await service.restart();
    const home = folder(next);
    if (staged.database === "elsewhere") return startOnForeignDump(next, cursor);
    const restored = await restoreStaged(contextOf(next));
    assert.ok(restored?.replaced);
    assert.equal(await readFile(join(home, "note"), "utf8"), "old");
    assert.equal(
      await readFile(join(home, ".env"), "utf8"),
      "KEEP=1\n",
      "secrets that the archive lacks stay",
    );
    assert.equal(await readFile(join(restored.replaced, "note"), "utf8"), "new");
    assert.ok(!existsSync(join(home, "later")) && !existsSync(stagedRestorePath(home)));
    const epochs = new Set([cursor.split("-")[0]]);
    for (let times = 0; times < 2; times++) {
      await writeFile(stagedRestorePath(home), archive);
      await restoreStaged(contextOf(next));
      const store = await openStore({ url: join(home, restored.manifest.database_path ?? "") });
      epochs.add(store.epoch);
      assert.deepEqual(await store.feed.read({ after: { tx: 0, id: 0 }, limit: 10 }), []);
      const sessions = await store.read.selectFrom("sessions").select("id").execute();
      assert.deepEqual(
        sessions.map(({ id }) => id),
        ["before"],
      );
      await store.close();
    }
    assert.equal(epochs.size, 3, "each restore begins an epoch, also of one archive");
    const url = join(home, restored.manifest.database_path ?? "");
    const like = { ...next, database: { url, drop: async () => {} } } as TestService;
    const last = await startTestService({ like });
    try {
      await assertExpired(last, cursor);
      const { data } = (await (await last.request("/v1/sessions")).json()) as {
        readonly data: readonly Session[];
      };
      assert.deepEqual(
        data.map(({ id }) => id),
        ["before"],
      );
    } finally {
      await last.service.stop({ graceMs: 0 });
    }
  },
);

scenario(
  "importBackup",
  400,
  { title: "an archive that is damaged, cut or no archive is refused as a whole" },
  async (service) => {
    await writeHome(service, { note: "old" });
    const archive = await download(service);
    const damaged = new Uint8Array(archive);
    damaged[Math.floor(damaged.length / 2)]! ^= 0xff;
    for (const wrong of [new Uint8Array(), new TextEncoder().encode("hi"), archive.slice(0, -20), damaged]) {
      const error = await assertError(await upload(service, wrong), 400, "invalid_request");
      assert.match(error.message, /The body is not an intact backup/);
      assert.doesNotMatch(error.message, /\/tmp/);
    }
    assert.deepEqual(
      (await readdir(folder(service))).filter((name) => name.startsWith(".restore")),
      [],
    );
  },
);

scenario("importBackup", 409, { title: "an Idempotency-Key that another archive used" }, async (service) => {
  await writeHome(service, { note: "old" });
  const headers = { "idempotency-key": "k" };
  await upload(service, await download(service), { headers });
  await writeHome(service, { note: "new" });
  await assertError(
    await upload(service, await download(service), { headers }),
    409,
    "idempotency_key_conflict",
  );
});

test("a server without keys takes no backup: 403 auth_required", async () => {
  await using service = await startTestService({ requireKey: false });
  await writeHome(service, { note: "old" });
  await assertError(await upload(service, await download(service)), 403, "auth_required");
});

test("an archive that was damaged while it waited is refused, and the next start is not", async () => {
  await using service = await startTestService();
  await writeHome(service, { note: "old" });
  await writeFile(stagedRestorePath(folder(service)), "damaged");
  await assert.rejects(restoreStaged(contextOf(service)), /is not an intact backup/);
  assert.ok(!existsSync(stagedRestorePath(folder(service))));
  assert.equal(await readFile(join(folder(service), "note"), "utf8"), "old");
});
