import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { SMTPServerOptions } from "smtp-server";
import { systemClock } from "../../../src/base/time.ts";
import type { SendOutcome } from "../../../src/deliver/target.ts";
import { email } from "../../../src/deliver/targets/email/email.ts";
import { sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { makeCertificate, PASSWORD, readMail, startSmtp, USER } from "../../harness/platforms/smtp.ts";

type Settings = Parameters<typeof email.create>[0];

const errorOf = (outcome: SendOutcome) => ("error" in outcome ? outcome.error : "");
const refuse = (status: number, message: string) =>
  Object.assign(new Error(message), { responseCode: status });

/** A server that wants STARTTLS and a login, and an account there. */
async function openMail(t: TestContext, options: SMTPServerOptions = {}, more: Settings = {}) {
  const { key, cert, caFile } = makeCertificate(t);
  const { port, mails } = await startSmtp(t, { key, cert, ...options });
  const settings: Settings = {
    address: USER,
    password: PASSWORD,
    smtp_host: "127.0.0.1",
    smtp_port: port,
    ca_file: caFile,
    ...more,
  };
  const send = async (request: SendRequest = {}, changed: Settings = {}) => {
    const all = { address: "ada@example.com", ...request };
    return sendThrough(email, { ...settings, ...changed }, all, { clock: systemClock });
  };
  return { port, mails, send };
}

test("a mail goes out encrypted and signed in, as text and as HTML", async (t) => {
  const { mails, send } = await openMail(t);
  const text = "# All is *well* 👋\n\n- one\n- two\n\n.\n.dot <script>alert(1)</script>";
  assert.deepEqual((await send({ text })).outcome, { status: "delivered" });
  const [mail] = mails;
  assert.deepEqual(
    [mail?.from, mail?.to, mail?.isEncrypted, mail?.user],
    [USER, ["ada@example.com"], true, USER],
  );
  const { headers, parts } = readMail(mail!.raw);
  assert.equal(headers.get("from"), USER);
  assert.equal(headers.get("to"), "ada@example.com");
  assert.equal(headers.get("subject"), "All is well 👋");
  assert.equal(headers.get("message-id"), "<out_01@example.org>");
  assert.equal(headers.get("auto-submitted"), "auto-generated");
  assert.ok(Math.abs(Date.parse(headers.get("date")!) - Date.now()) < 60_000);
  assert.equal(headers.has("in-reply-to"), false);
  assert.match(headers.get("content-type")!, /^multipart\/alternative/);
  assert.match(parts.get("text/plain")!, /^.*All is .*well.* 👋\n[^]*one[^]*two[^]*\n\.\n?/);
  assert.match(parts.get("text/html")!, /<h1>All is <em>well<\/em> 👋<\/h1>/);
  assert.doesNotMatch(parts.get("text/html")!, /<script/);
});

test("TLS from the start is spoken where it is asked for", async (t) => {
  const { mails, send } = await openMail(t, { secure: true }, { tls: "implicit" });
  assert.deepEqual((await send()).outcome, { status: "delivered" });
  assert.deepEqual([mails[0]?.isEncrypted, mails[0]?.user], [true, USER]);
});

test("without encryption nothing leaves but to this machine, and only when that is asked for", async (t) => {
  const options = { disabledCommands: ["STARTTLS"], allowInsecureAuth: true };
  const seen: string[] = [];
  const onAuth: SMTPServerOptions["onAuth"] = ({ username = "" }, _session, done) => {
    seen.push(username);
    done(null, { user: username });
  };
  const { mails, send } = await openMail(t, { ...options, onAuth });
  // STARTTLS was stripped: the login must not go out.
  const { outcome } = await send();
  assert.equal(outcome.status, "retry");
  assert.match(errorOf(outcome), /Nothing was sent unencrypted\. Check that the server offers STARTTLS/);
  assert.deepEqual([seen, mails], [[], []]);
  assert.deepEqual((await send({}, { tls: "none" })).outcome, { status: "delivered" });
  assert.deepEqual([seen, mails[0]?.isEncrypted], [[USER], false]);
});

test("a server without a login is fine on this machine", async (t) => {
  const { port, mails } = await startSmtp(t, { disabledCommands: ["STARTTLS", "AUTH"], authOptional: true });
  const settings = {
    address: "agent@localhost",
    smtp_host: "127.0.0.1",
    smtp_port: port,
    tls: "none",
  } as const;
  assert.deepEqual(email.missing(settings), []);
  const { outcome } = await sendThrough(email, settings, { address: "root@localhost" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual([mails[0]?.from, mails[0]?.to], ["agent@localhost", ["root@localhost"]]);
});

test("an untrusted certificate, or one of another name, is refused", async (t) => {
  const { mails, send } = await openMail(t);
  const { outcome: unknown } = await send({}, { ca_file: undefined } as unknown as Settings);
  assert.equal(unknown.status, "retry");
  assert.match(
    errorOf(unknown),
    /^The certificate of 127\.0\.0\.1:\d+ is not trusted .+ or set platforms\.email\.ca_file\.$/,
  );
  const other = makeCertificate(t, "DNS:other.example");
  const named = await openMail(t, { key: other.key, cert: other.cert }, { ca_file: other.caFile });
  const { outcome: wrong } = await named.send();
  assert.equal(wrong.status, "retry");
  assert.match(errorOf(wrong), /certificate|encrypted connection/);
  assert.deepEqual([mails, named.mails], [[], []]);
});

test("a missing certificate file is reported, and nothing is sent", async (t) => {
  const { mails, send } = await openMail(t);
  const { outcome } = await send({}, { ca_file: "/nonexistent/ca.pem" });
  assert.deepEqual(outcome, {
    status: "retry",
    error: "platforms.email.ca_file cannot be read (ENOENT).",
  });
  assert.deepEqual(mails, []);
});

test("a wrong password is given up, and stands in no error", async (t) => {
  const { mails, send } = await openMail(t);
  const { outcome } = await send({}, { password: "not-the-password" });
  assert.equal(outcome.status, "permanent");
  assert.match(errorOf(outcome), /refused the login \(535\): check platforms\.email\.user and password/);
  assert.doesNotMatch(errorOf(outcome), /not-the-password|bm90LXRoZS1wYXNzd29yZA/);
  assert.deepEqual(mails, []);
});

test("a server that cannot check logins now is asked again", async (t) => {
  const onAuth: SMTPServerOptions["onAuth"] = (_auth, _session, done) => done(refuse(454, "4.7.0 Try later"));
  const { send } = await openMail(t, { onAuth });
  const { outcome } = await send();
  assert.equal(outcome.status, "retry");
  assert.match(errorOf(outcome), /temporarily refuses logins \(454\)/);
});

test("what the server says about sender, recipient and text decides: 4xx again, 5xx never", async (t) => {
  const table = [
    ["onMailFrom", 451, "4.3.0 Busy", "retry"],
    ["onMailFrom", 550, "5.7.1 Not you", "permanent"],
    ["onMailFrom", 552, "5.3.4 Too large", "permanent"],
    ["onRcptTo", 451, "4.2.1 Greylisted", "retry"],
    ["onRcptTo", 421, "4.7.0 Too many connections", "retry"],
    ["onRcptTo", 550, "5.1.1 No such user", "permanent"],
    ["onRcptTo", 503, "Bad sequence", "retry"],
    ["onData", 451, "4.3.0 Busy", "retry"],
    ["onData", 552, "5.2.2 Mailbox full", "permanent"],
    ["onData", 554, "5.7.1 Spam", "permanent"],
    ["onData", 421, "4.3.2 Going down", "retry"],
  ] as const;
  for (const [hook, status, message, expected] of table) {
    const error = refuse(status, message);
    const options: SMTPServerOptions =
      hook === "onData"
        ? { onData: (stream, _session, done) => void stream.resume().on("end", () => done(error)) }
        : { [hook]: (_address: unknown, _session: unknown, done: (problem: Error) => void) => done(error) };
    const { send } = await openMail(t, options);
    const { outcome } = await send();
    assert.equal(outcome.status, expected, `${hook} ${status}`);
    assert.match(errorOf(outcome), new RegExp(`${status}.+${message.split(" ").at(-1)}`));
  }
});

test("a mail that is too large for the server is given up", async (t) => {
  const { send } = await openMail(t, { size: 1_000, rejectOversized: true });
  const { outcome } = await send({ text: "word ".repeat(2_000) });
  assert.equal(outcome.status, "permanent");
  assert.match(errorOf(outcome), /refused the mail: 552 .+The mail is too large for the server/);
});

test("recipients that are no one plain address are refused, and no header can be smuggled in", async (t) => {
  const { mails, send } = await openMail(t);
  const thousands = Array.from({ length: 5_000 }, (_, index) => `a${index}@example.com`).join(",");
  const bad = [
    "ada@example.com\r\nBcc: eve@example.com",
    "ada@example.com\nX: y",
    "ada@example.com, eve@example.com",
    "ada@example.com;eve@example.com",
    "ada@example.com eve@example.com",
    "Ada <ada@example.com>",
    "<ada@example.com>",
    '"a b"@example.com',
    "ada@example.com> SIZE=1",
    "group: ada@example.com;",
    "ada",
    "@example.com",
    "ada@",
    "ada@[127.0.0.1]",
    "ada@example..com",
    "a\u0000da@example.com",
    `${"a".repeat(65)}@example.com`,
    `ada@${"example.".repeat(40)}com`,
    thousands,
  ];
  for (const address of bad) {
    const { outcome } = await send({ address });
    assert.equal(outcome.status, "permanent", JSON.stringify(address.slice(0, 60)));
    assert.match(errorOf(outcome), /^The recipient must be one plain address/);
  }
  const { outcome } = await send({ address: "" });
  assert.match(
    errorOf(outcome),
    /^The message has no address: set deliver_extra\.chat_id, or platforms\.email\.home_channel/,
  );
  assert.deepEqual(mails, []);
});

test("chat_id names the recipient where the address does not", async (t) => {
  const { mails, send } = await openMail(t);
  await send({ address: "", extra: { chat_id: "grace+news@mail.example.com" } });
  assert.deepEqual(mails[0]?.to, ["grace+news@mail.example.com"]);
});

test("subject, thread and references come from the extra keys, without what does not belong there", async (t) => {
  const { mails, send } = await openMail(t);
  const headersOf = async (extra: Readonly<Record<string, unknown>>, text = "hi") => {
    await send({ extra, text });
    return readMail(mails.at(-1)!.raw).headers;
  };
  const wild = await headersOf({
    subject: "Grüße\r\nBcc: eve@example.com\r\n\r\nbody \u0000👋",
    in_reply_to: "a.b@example.com",
    references: "<r1@example.com> nonsense <r2@example.com>\r\nBcc: eve@example.com",
    bcc: "eve@example.com",
    attachments: [{ path: "/etc/passwd" }],
    html: { path: "/etc/passwd" },
    raw: "From: eve@example.com",
  });
  assert.equal(wild.get("subject"), "Grüße Bcc: eve@example.com body 👋");
  assert.equal(wild.has("bcc"), false);
  assert.equal(wild.get("in-reply-to"), "<a.b@example.com>");
  assert.equal(
    wild.get("references"),
    "<r1@example.com> <r2@example.com> <eve@example.com> <a.b@example.com>",
  );
  assert.deepEqual(mails[0]?.to, ["ada@example.com"]);
  assert.doesNotMatch(mails[0]!.raw, /root:/);
  const bad = await headersOf({ in_reply_to: "no id at all", references: 7, subject: 7 });
  assert.deepEqual(
    [bad.get("in-reply-to"), bad.get("references"), bad.get("subject")],
    [undefined, undefined, "hi"],
  );
  const long = await headersOf({ subject: "👋".repeat(300) });
  assert.equal(long.get("subject"), `${"👋".repeat(199)}…`);
  const line = await headersOf({}, `\n\n## **${"word ".repeat(60)}word**\n\nmore`);
  assert.match(line.get("subject")!, /^word word .+…$/);
  assert.ok(Array.from(line.get("subject")!).length <= 80);
  assert.match((await headersOf({}, "---")).get("subject") ?? "", /./);
});

test("empty, binary and control characters arrive as what can be read of them", async (t) => {
  const { mails, send } = await openMail(t);
  for (const text of ["", "\u0000\u0001", "a\u001b[2J\u0000b\r\nc\ud800"]) {
    assert.deepEqual((await send({ text })).outcome, { status: "delivered" });
  }
  const texts = mails.map(({ raw }) => readMail(raw).parts.get("text/plain"));
  assert.deepEqual(texts.slice(0, 2), ["(The answer was empty.)", "(The answer was empty.)"]);
  assert.match(texts[2]!, /^a\[2Jb\s+c$/);
});

test("a payload that is not text is given up", async (t) => {
  const { mails, send } = await openMail(t);
  for (const payload of [null, "a", 7, { text: 7 }, { text: "a", extra: "b" }]) {
    assert.equal((await send({ payload })).outcome.status, "permanent");
  }
  assert.deepEqual(mails, []);
});

test("a huge text becomes several mails of one thread, and a later attempt continues after those that arrived", async (t) => {
  const { mails, send } = await openMail(t);
  const text = "All is well. ".repeat(45_000);
  const { outcome, progress } = await send({ text });
  assert.deepEqual(outcome, { status: "delivered" });
  const read = mails.map(({ raw }) => readMail(raw));
  const count = read.length;
  assert.ok(count >= 3);
  assert.deepEqual(
    progress,
    Array.from({ length: count - 1 }, (_, index) => index + 1),
  );
  const ids = read.map(({ headers }) => headers.get("message-id"));
  assert.deepEqual(ids.slice(0, 2), ["<out_01@example.org>", "<out_01.2@example.org>"]);
  for (const { headers } of read.slice(1)) assert.equal(headers.get("in-reply-to"), ids[0]);
  assert.match(read[1]!.headers.get("subject")!, new RegExp(`\\(2/${count}\\)$`));
  await send({ text, attempt: 2, partsSent: count - 1 });
  assert.equal(mails.length, count + 1);
  assert.equal(readMail(mails.at(-1)!.raw).headers.get("message-id"), ids.at(-1));
});

test("what is missing is named with its key and its variable", () => {
  assert.deepEqual(email.missing({}), [
    "address (EMAIL_ADDRESS)",
    "smtp_host (EMAIL_SMTP_HOST)",
    "password (EMAIL_PASSWORD)",
  ]);
  const whole = { address: USER, smtp_host: "smtp.example.org", password: "p" };
  assert.deepEqual(email.missing(whole), []);
  assert.deepEqual(email.missing({ ...whole, address: "agent\r\nBcc: x@y" }), ["address (EMAIL_ADDRESS)"]);
  assert.deepEqual(email.missing({ ...whole, smtp_port: Number.NaN }), [
    "smtp_port as a number (EMAIL_SMTP_PORT)",
  ]);
  assert.deepEqual(email.missing({ ...whole, home_channel: "ada@example.com, eve@example.com" }), [
    "home_channel as one plain address (EMAIL_HOME_ADDRESS)",
  ]);
  for (const host of ["smtp.example.org", "127.0.0.1.example.org", "10.0.0.1", "localhost.example.org"]) {
    const [lack = ""] = email.missing({ ...whole, smtp_host: host, tls: "none" });
    assert.match(lack, /tls none \(EMAIL_SMTP_TLS\) is for a server on this machine alone/);
  }
  for (const host of ["localhost", "127.0.0.1", "127.1.2.3", "::1"]) {
    assert.deepEqual(email.missing({ address: USER, smtp_host: host, tls: "none" }), []);
  }
});
