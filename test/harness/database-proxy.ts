/** A TCP proxy before PostgreSQL that loses connections at chosen points, and can be away as a server that restarts is. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** Where a connection is lost: in the middle of a transaction, or after it was committed and before that is told. */
export type LostAt = "inside" | "commit";

export interface DatabaseProxy extends AsyncDisposable {
  /** Of the same database, by way of the proxy. */
  readonly url: string;
  /** Transactions that began since the last `loseAt`. */
  readonly transactions: number;
  /** From now on counts transactions, and loses the connection of the one of that number. */
  loseAt(transaction: number, where: LostAt): void;
  /** Cuts all connections, and takes no more until `comeBack`. */
  goAway(): void;
  comeBack(): void;
}

const BEGUN = Buffer.from("BEGIN\0");
const COMMITTED = Buffer.from("COMMIT\0");

export async function startDatabaseProxy(databaseUrl: string): Promise<DatabaseProxy> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let isAway = false;
  let count = 0;
  let lost: { readonly transaction: number; readonly where: LostAt } | undefined;

  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", end).on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    if (isAway) return end();
    let isChosen = false;
    client.on("data", (bytes) => upstream.write(bytes));
    upstream.on("data", (bytes: Buffer) => {
      // The answer to a statement of the chosen transaction, or to its commit, is lost with the connection.
      if (isChosen && (lost?.where === "inside" || bytes.includes(COMMITTED))) return end();
      if (bytes.includes(BEGUN)) isChosen = ++count === lost?.transaction;
      client.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const cut = () => sockets.forEach((socket) => socket.destroy());
  return {
    url: databaseUrl.replace(`:${target.port}/`, `:${port}/`),
    get transactions() {
      return count;
    },
    loseAt(transaction, where) {
      count = 0;
      lost = { transaction, where };
    },
    goAway() {
      isAway = true;
      cut();
    },
    comeBack: () => void (isAway = false),
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
