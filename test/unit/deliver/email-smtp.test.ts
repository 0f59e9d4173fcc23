import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { systemClock } from "../../../src/base/time.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import type { SendOutcome } from "../../../src/deliver/target.ts";
import { email } from "../../../src/deliver/targets/email/email.ts";
import { sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { agree, startScripted, type Say } from "../../harness/platforms/smtp.ts";

const errorOf = (outcome: SendOutcome) => ("error" in outcome ? outcome.error : "");

async function openScripted(t: TestContext, say: Say) {
  const { port, lines } = await startScripted(t, say);
  const settings = {
    address: "agent@example.org",
    smtp_host: "127.0.0.1",
    smtp_port: port,
    tls: "none",
  } as const;
  const send = async (request: SendRequest = {}, clock = systemClock) =>
    (await sendThrough(email, settings, { address: "ada@example.com", ...request }, { clock })).outcome;
  return { lines, send, port };
}

/** Everything is agreed to but for `at`. */
const except =
  (at: string, act: Say): Say =>
  (line, socket) =>
    line.startsWith(at) && (at !== "" || line === "") ? act(line, socket) : agree(line);

test("once the text was sent, a connection that ends without an answer leaves the mail unknown", async (t) => {
  const { send, lines } = await openScripted(
    t,
    except(".", (_, socket) => void socket.destroy()),
  );
  const outcome = await send();
  assert.equal(outcome.status, "unknown");
  assert.match(
    errorOf(outcome),
    /^127\.0\.0\.1:\d+ received the mail and did not confirm it .+may have arrived\.$/,
  );
  assert.equal(lines.at(-1), ".");
});

test("an answer cut in the middle leaves the mail unknown; one that begins with a refusal is one", async (t) => {
  const table = [
    ["2", "unknown"],
    ["250", "unknown"],
    ["55", "unknown"],
    ["250-first\r\n", "unknown"],
    ["550 no, nev", "permanent"],
    ["451 not n", "retry"],
  ] as const;
  for (const [said, expected] of table) {
    const { send } = await openScripted(
      t,
      except(".", (_, socket) => void socket.end(said)),
    );
    assert.equal((await send()).status, expected, said);
  }
});

test("a connection that ends before the text was sent is tried again", async (t) => {
  for (const at of ["", "EHLO", "MAIL FROM", "RCPT TO", "DATA"]) {
    const { send } = await openScripted(
      t,
      except(at, (_, socket) => void socket.destroy()),
    );
    const outcome = await send();
    assert.equal(outcome.status, "retry", at);
    assert.match(
      errorOf(outcome),
      /^The connection to 127\.0\.0\.1:\d+ failed .+ Check platforms\.email\.smtp_host/,
    );
  }
});

test("a server that is not there is asked again", async () => {
  const settings = { address: "a@example.org", smtp_host: "127.0.0.1", smtp_port: 1, tls: "none" } as const;
  const { outcome } = await sendThrough(email, settings, { address: "ada@example.com" });
  assert.equal(outcome.status, "retry");
  assert.match(errorOf(outcome), /ECONNREFUSED.+Check platforms\.email\.smtp_host and smtp_port\.$/);
});

test("a server that does not greet, or hangs later, is not waited for beyond the time", async (t) => {
  const table = [
    ["", "retry"],
    ["EHLO", "retry"],
    ["DATA", "retry"],
    [".", "unknown"],
  ] as const;
  for (const [at, expected] of table) {
    const clock = new FakeClock();
    const asked = Promise.withResolvers<void>();
    const { send } = await openScripted(
      t,
      except(at, () => void asked.resolve()),
    );
    const sending = send({}, clock);
    await asked.promise;
    clock.tick(45_000);
    assert.equal((await sending).status, expected, at);
  }
});

test("an attempt that is over lets go of the connection", async (t) => {
  const asked = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  const { send } = await openScripted(
    t,
    except("MAIL FROM", (_, socket) => {
      socket.once("close", () => closed.resolve());
      asked.resolve();
      return undefined;
    }),
  );
  const abort = new AbortController();
  const sending = send({ signal: abort.signal });
  await asked.promise;
  abort.abort(new Error("The attempt is over."));
  assert.notEqual((await sending).status, "delivered");
  await closed.promise;
});

test("answers that are not SMTP, greetings that send away and endless ones are tried again", async (t) => {
  const table: readonly [string, RegExp][] = [
    ["HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>\r\n", /127\.0\.0\.1/],
    ["554 5.7.1 \u001b[31mNo service for you\r\n", /554 5\.7\.1 \[31mNo service for you/],
    ["421 Too many connections\r\n", /421 Too many connections/],
    [`220-${"x".repeat(100_000)}\r\n`, /failed/],
    ["\r\n\r\n\u0000\u0001\r\n", /127\.0\.0\.1/],
  ];
  for (const [greeting, error] of table) {
    const { send } = await openScripted(
      t,
      except("", () => greeting),
    );
    const outcome = await send();
    assert.equal(outcome.status, "retry", greeting.slice(0, 40));
    assert.match(errorOf(outcome), error);
    // oxlint-disable-next-line no-control-regex -- none may be left
    assert.doesNotMatch(errorOf(outcome), /[\u0000-\u001f]/);
  }
});

test("a server's answer is reported in one line of bounded length", async (t) => {
  const words = "very ".repeat(5_000);
  const { send } = await openScripted(
    t,
    except("RCPT TO", () => `550-5.1.1 ${words.slice(0, 500)}\r\n550 5.1.1 so\r\n`),
  );
  const outcome = await send();
  assert.equal(outcome.status, "permanent");
  assert.ok(errorOf(outcome).length < 400);
  assert.doesNotMatch(errorOf(outcome), /\n/);
});

test("lines that begin with a dot arrive whole, and end no mail early", async (t) => {
  const { send, lines } = await openScripted(t, agree);
  assert.deepEqual(await send({ text: "a\n\n.\n\nQUIT\n\n..\n\nMAIL FROM:<eve@example.com>" }), {
    status: "delivered",
  });
  assert.equal(lines.filter((line) => line === ".").length, 1);
});

test("whatever is not said to go unencrypted does not", async (t) => {
  const refuse: Say = () => "454 4.7.0 Not now\r\n";
  const agreeAndBreak: Say = (_, socket) => void socket.end("220 Go ahead\r\n");
  for (const act of [refuse, agreeAndBreak]) {
    const { port, lines } = await startScripted(t, except("STARTTLS", act));
    const settings = {
      address: "agent@example.org",
      password: "kw9",
      smtp_host: "127.0.0.1",
      smtp_port: port,
      // As the environment may say it.
      tls: "starttls" as "required",
    };
    const { outcome } = await sendThrough(email, settings, { address: "ada@example.com" });
    assert.equal(outcome.status, "retry");
    assert.ok(lines.includes("STARTTLS"));
    assert.doesNotMatch(lines.join("\n"), /AUTH|MAIL FROM/);
  }
});
