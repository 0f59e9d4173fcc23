/** Why rows of a bench miss their goals, and what bounds them: printed below the table of the bench. */
export const notes: Readonly<Record<string, readonly string[]>> = {
  startup: [
    "Times are from the spawn, so they contain what `node -e 0` takes, and they follow the load of the machine.",
    "A profile of `agentd gateway` in an existing home (0.1 ms samples, four starts): 25 % find, compile and link its own" +
      " files, 15 % load parts of Node, a third of that undici, which the Request and Headers of h3 need, 13 % collect" +
      " garbage, 31 % run code of agentd and its packages, 4 % start Node.",
    "The build merges what a start loads together into about ten files (110 before). The compiled code is kept in the" +
      " home, so the first start in a new home compiles everything; the second one writes the cache, the third reads it." +
      " Shipping the cache with the package does not work: Node looks for it by its exact version, the features of the" +
      " processor and the user's id. A larger space for new objects while it starts costs more than it saves: V8 then" +
      " rejects the compiled code of Node itself (1.05 to 1.23 times the CPU time).",
    "The limit is the bare h3 server of the control, whose code is a fifth of what a gateway loads.",
  ],
  "acp-start": [
    "What is beyond the bare SDK is the start of the command line and the check of the home. Zod, which the SDK needs," +
      " is 190 of the 320 kB that load before the answer.",
  ],
  chat: [
    "A chat is two durable transactions: one before the model is asked, and one with its end. They run 7 and 11 statements;" +
      " 3 of each are shared by all chats of a group. Each inserts or changes rows of sessions, runs, events and messages" +
      " with their indexes. The control writes nothing.",
    "A profile under load: 13 % wait for the disk in commits, 8 % collect garbage, 8 % run other statements, 3 % write to" +
      " sockets; the rest is spread over more than a hundred functions below 1 %.",
    "What the goal leaves for a chat is less than the statements of its two transactions take, so it needs fewer of them:" +
      " the session's lease and counters are three changes of one row at the end.",
  ],
  runs: [
    "As for chats. The control answers from memory; a run is in the database before its creation is answered, and runs" +
      " at the same time, on the same thread, to its end.",
  ],
  webhook: [
    "An accepted webhook is a delivery, a run and the claim of its id in one durable transaction; its run competes for" +
      " the same thread, which is what the p99 at half of the rate shows. Accepting does not yet go before the runs.",
    "A body of 1 MB, in CPU time of one core beside a load of 25: JSON.parse 5.2 ms, SQLite writes it in 3.5 ms and moves" +
      " it from the log to the file later, the scan for numbers that JavaScript cannot keep 3.0 ms, reading UTF-8 and" +
      " the HMAC 2.3 ms, the check of the depth 1.3 ms. Parsing and writing alone are above the goal of 8 ms on this" +
      " machine. Storing it compressed does not help: zstd takes 5.6 ms and saves 2.8 ms.",
  ],
  "rpc-stdio": [
    "A profile of a call with 16 in flight: 25 % write the answer to the pipe, which the control does as well, 21 % read" +
      " the session from SQLite, 6 % make JSON, 5 % parse it, 5 % collect garbage. A session that another process may change is read in each call.",
  ],
  "rpc-socket": ["As on stdio. Each answer is a frame of its own in both rows."],
  deliver: [
    "Messages of one chat leave one after the other: the next one is claimed in the commit that records the outcome of the" +
      " last one, since only then their order is certain. No other message shares these commits, where a hundred chats do.",
  ],
  postgres: [
    "One connection writes. What waits for an answer of the database waits alone: a chat that ends takes three round" +
      " trips (its run, the counters of the session, the lease) before the next one of the group takes its own.",
    "The database runs on the same two processors here, so three processes share what one had.",
  ],
  "chat-memory": [
    "Of a started gateway, 46 MB are pages of Node's own program file, and 41 MB are private. V8 holds 18 MB after a" +
      " collection: 7.2 MB of compiled code and 7.2 MB of sources, of which 2 MB are Node's own. The rest are the space" +
      " for new objects, the compiled code as it was read, SQLite and threads.",
    "The goal needs about 7 MB less: it takes a start that loads half of the code.",
  ],
};
