/** Why rows of a bench miss their goals, and what bounds them: printed below the table of the bench. */
export const notes: Readonly<Record<string, readonly string[]>> = {
  startup: [
    "Times are from the spawn, so they contain what `node -e 0` takes, and they follow the load of the machine.",
    "A profile of `agentd gateway` in an existing home (0.1 ms samples, four starts): 25 % find, compile and link its own" +
      " files, 15 % load parts of Node, 13 % collect garbage, 31 % run code of agentd and its packages, 4 % start Node. A" +
      " third of the parts of Node was its `fetch`, which the Request and Headers of h3 need; since then it loads with the" +
      " first request, or when a model server is looked for (0.93 times the CPU time).",
    "The build merges what a start loads together into about ten files (110 before). The compiled code is kept in the" +
      " home, so the first start in a new home compiles everything; the second one writes the cache, the third reads it." +
      " Shipping the cache with the package does not work: Node looks for it by its exact version, the features of the" +
      " processor and the user's id. A larger space for new objects while it starts costs more than it saves: V8 then" +
      " rejects the compiled code of Node itself (1.05 to 1.23 times the CPU time). Node's own modules without the" +
      " reading of all their names save nothing either: what stands in for the names costs as much (0.89 to 1.09 times).",
    "The limit is the bare h3 server of the control, whose code is a fifth of what a gateway loads.",
  ],
  "acp-start": [
    "The rest, beyond the bare SDK, is the start of the command line and the check of the home. Zod, which the SDK needs," +
      " is 190 of the 320 kB that load before the answer.",
  ],
  chat: [
    "A chat is two durable transactions: one before the model is asked, and one with its end. With SQLite they run 4 and 6" +
      " statements of their own (4 and 8 before the end changed each row once); those that begin and commit, write the" +
      " changes for the feed and add to the usage are shared by all chats of a group. A chat writes about 33 entries of" +
      " tables and indexes. The control writes nothing.",
    "A profile of 16,000 chats at a load of 18, with the database in memory: 18 % write rows, 5 % read rows, begin and" +
      " commit, 16 % collect garbage, 6 % write to sockets, 2 % hash the key; the rest is spread over more than a hundred" +
      " functions of about 1 % and less. On a disk, commits add what waiting for it takes. A chat allocates 160 kB, and a" +
      " twelfth of that outlives two collections, because 64 chats are in progress. Collecting in one thread" +
      " instead of several changed less than the noise of 40 interleaved pairs. Letting the heap grow by 48 MB instead of" +
      " 20 MB between full collections saves about 4 % of the CPU time (25 pairs), for as much more memory.",
    "The goal leaves a chat about 2.9 times what the control takes. The work of the control itself, which each chat has too," +
      " and the statements of its transactions take nearly all of that, so the goal needs fewer rows for a chat: fewer" +
      " events, or one table for a run and a session that is made for it.",
  ],
  runs: [
    "As for chats. The control answers from memory; a run is in the database before its creation is answered, and runs" +
      " at the same time, on the same thread, to its end.",
  ],
  webhook: [
    "An accepted webhook is a delivery, a run and the claim of its id in one durable transaction; its run competes for" +
      " the same thread, which is what the p99 at half of the rate shows. Accepting does not yet take priority over runs.",
    "A body of 1 MB costs 18 ms where it cost 25, since its row has a rowid: to insert it, SQLite read the bodies beside it" +
      " (4.6 ms, now 0.5). The rest, in CPU time at a load of 11: JSON.parse 3.8 ms, SQLite writes it to the log in 3.5 ms" +
      " and moves it from there to the file in 1.3 ms, the scan for numbers that JavaScript cannot keep 1.0 ms, the check of" +
      " the depth 0.9 ms, the HMAC, reading UTF-8 and the insert 0.9 ms; collecting garbage and receiving the rest.",
    "Parsing and writing alone are above the goal of 8 ms on this machine. Tried: to check the text without building its" +
      " value, so that only the fields of a template are parsed (a scan of the structure alone takes 0.32 to 0.45 times as" +
      " long as JSON.parse, before it checks anything); to store it compressed (a push of varied commits: zstd takes 2.6 to" +
      " 5.8 ms, and writing a quarter or a half of the bytes saves about 2.5 ms); to bind bytes in place of text (no" +
      " difference).",
  ],
  "webhook-feed": [
    "An accepted webhook is two changes, of 190 bytes each: its delivery and its run. The end of its run is three: the run," +
      " the message, the delivery. The changes of a transaction are one row for each owner (five rows a webhook before: the" +
      " store alone took 24 us for them in groups of 26 webhooks, and takes 15 us now; 8 of these are their bytes in the" +
      " log). A transaction has about a hundred changes at this load.",
    "The two kinds of a row are processes that live side by side and take turns of 1,200 webhooks, since the speed of the" +
      " machine changes by half within seconds. What remains is chance: two processes of the same kind differ by up to a" +
      " tenth, so there are ten of each.",
    "With a subscriber, each commit read again what the process had just written, looked through up to 2,000 rows that were" +
      " kept, and made an exception for the end of each wait. Without these, a webhook with a subscriber costs 790 us where" +
      " it cost 929 (ten interleaved pairs of processes at a load of 27). What is left is two frames for each webhook and" +
      " their way through the stream.",
  ],
  "rpc-stdio": [
    "The control takes 2.2 us of CPU time for a call with 16 in flight, which leaves 3.1 us for the goal. Reading the request" +
      " as JSON and making the answer take 1.8 us of these, before a parameter is checked or a session is looked up. A call" +
      " takes 5.5 us (7.4 us before sessions were kept until the next commit). A profile at a load of 25: 25 % write the" +
      " answers to the pipe, 11 % collect garbage, 7 % make JSON, 5 % parse it, 3 % look for the session.",
    "With one call in flight the control takes 6.7 us, nearly all of it to wait for the pipe and to wake its reader, and a" +
      " call 16 us. Looking whether another process committed costs two system calls, 2 us, each time: as much as a look-up" +
      " of a session that is not saved yet. An answer may not come from before a commit that its caller knows of, so it" +
      " cannot be left out.",
  ],
  "rpc-socket": [
    "As on stdio, but each socket has its own chunk, so each call looks whether the database changed. Each answer is a frame of its own in both rows.",
  ],
  deliver: [
    "Messages of one chat are sent one at a time. One transaction records the outcome of a message, leases the next one and" +
      " begins its request, so each message waits for one commit (two before: 2.7 to 4.4 times the rate, 0.3 to 0.45 times" +
      " the CPU time, at a load of 18). That is more than the control reaches when it, too, writes one after the other. The" +
      " control of this row has eight writers, whose commits share one write to the disk.",
    "The limit is that commit: the next request must not begin before the database has it, or a crash would leave more" +
      " than one message that may or may not have come. A platform that recognises repeats could get the next" +
      " message earlier: it needs leases of several messages, and a count of attempts for those that were never sent.",
  ],
  "chat-provider": [
    "A profile with 16 clients at a load of 36: 9 % read the stream of the model, 8 % collect garbage, 8 % run statements and" +
      " commits, 5 % write to sockets; the rest is spread over several hundred functions below" +
      " 1 %. The CPU time of a chat follows the load of the machine: 1.5 to 1.7 ms there.",
    "The control, which only passes the stream on, takes 0.39 ms, and a chat with an instant model, which has the same two" +
      " durable transactions, 0.35 to 0.5 ms. Both together are what the goal leaves, so the 50 deltas themselves, read," +
      " joined and written as events, would have to cost next to nothing.",
  ],
  others: [
    "The control is the other software. Its limits: the receiver of Octokit answers when it has called a handler and keeps" +
      " nothing, so a crash loses what it accepted; agentd has the delivery and its run on the disk by then, and follows" +
      " the speed of the disk. The agent of Zed loads Claude's SDK for an answer that needs no model; agentd loads its" +
      " own engine with the first session.",
    "No proxy of models is here: the one of npm that was tried (@portkey-ai/gateway 1.15.2) answers each chat with 500 on" +
      " Node 24, since it changes headers that cannot be changed.",
  ],
  postgres: [
    "One connection writes. What different sessions write at the same moment shares a transaction, and their statements" +
      " are sent without waiting for each other; what decides by rows that sessions share, such as a prompt with a limit" +
      " of its key, takes its round trips alone.",
    "The database runs on the same two processors here, so three processes share what one had.",
  ],
  "chat-memory": [
    "Of a started gateway, 46 MB are pages of Node's own program file, and 41 MB are private. V8 holds 18 MB after a" +
      " collection: 7.2 MB of compiled code and 7.2 MB of sources, of which 2 MB are Node's own. The rest are the space" +
      " for new objects, the compiled code as it was read, SQLite and threads.",
    "A gateway at rest is 84 MB in an existing home and 88 MB in a new one; a bare HTTP server of Node is 47 MB, 38 of them" +
      " pages of files. The goal needs about 5 MB less. V8's new space is 7 MB then, mostly empty. An ordinary collection (30 ms)" +
      " shrinks it and returns no page to the system. The collection of last resort gives 78 MB, but takes 90 ms of CPU" +
      " time in which no request is answered, so a gateway does not make it. `node --max-semi-space-size=2` gives 81.5 MB" +
      " at the same CPU time of the start; it cannot be set by a program that runs, and streams need more space than that.",
  ],
};
