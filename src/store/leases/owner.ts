/** Touches the machine: host name and process table. */
import { hostname } from "node:os";
import process from "node:process";

/** The owner of this store's leases, and how to ask about others. */
export interface Leaseholder {
  readonly owner: string;
  ownerIsDead(owner: string): boolean;
}

// Stores of one process differ only in the nonce, as do two processes that had the same pid. This set has the open
// ones.
const living = new Set<string>();

/** Creates a store's name on leases: `host:pid:nonce`. It counts as alive until {@link retireOwner}. */
export function createOwner(host: string = hostname()): string {
  const owner = `${host}:${process.pid}:${nonce()}`;
  living.add(owner);
  return owner;
}

/** Marks the store of that name as closed: its leases are free. */
export function retireOwner(owner: string): void {
  living.delete(owner);
}

/**
 * Returns whether the process of `owner` is known to be gone, as seen by `self`. Only processes of the same host can be
 * known: the pid is free, or is now ours with another nonce (a container that restarted as pid 1). A pid that another
 * program reuses looks alive; its lease has to expire.
 */
export function isOwnerDead(owner: string, self: string): boolean {
  const [other, me] = [parseOwner(owner), parseOwner(self)];
  if (!other || !me || other.host !== me.host) return false;
  if (other.pid === me.pid) return !living.has(owner);
  return !processExists(other.pid);
}

/** Host and process of an owner. */
export interface OwnerProcess {
  readonly host: string;
  readonly pid: number;
}

function nonce(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

// Parsed from the right: a host name may contain colons.
const OWNER = /^(?<host>.+):(?<pid>[1-9]\d{0,9}):[0-9a-f]+$/;

/** Parses an owner's name; undefined when it is not one. */
export function parseOwner(owner: string): OwnerProcess | undefined {
  const { host, pid } = OWNER.exec(owner)?.groups ?? {};
  return host && pid ? { host, pid: Number(pid) } : undefined;
}

function processExists(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Any other error, such as for a process of another user, means that it is alive.
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
