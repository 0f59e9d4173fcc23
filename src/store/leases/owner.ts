/** Touches the machine: host name and process table. */
import { hostname } from "node:os";
import process from "node:process";

/** The owner of this store's leases, and how to ask about others. */
export interface Leaseholder {
  readonly owner: string;
  ownerIsDead(owner: string): boolean;
}

// Stores of one process differ in the nonce alone, as do two lives of one pid: these are the living ones.
const living = new Set<string>();

/** A store's name on leases: `host:pid:nonce`. It counts as alive until {@link retireOwner}. */
export function createOwner(host: string = hostname()): string {
  const owner = `${host}:${process.pid}:${nonce()}`;
  living.add(owner);
  return owner;
}

/** The store of that name is closed: whatever it still leases is free. */
export function retireOwner(owner: string): void {
  living.delete(owner);
}

/**
 * True when the process that `owner` names is known to be gone, as seen by `self`. Only a process of the same host
 * can be known: its pid is free, or is now ours under another nonce (a container that restarted as pid 1 again).
 * A pid that somebody else reuses looks alive; its lease then has to run out.
 */
export function isOwnerDead(owner: string, self: string): boolean {
  const [other, me] = [parse(owner), parse(self)];
  if (!other || !me || other.host !== me.host) return false;
  if (other.pid === me.pid) return !living.has(owner);
  return !processExists(other.pid);
}

/** Where an owner runs. */
export interface OwnerSite {
  readonly host: string;
  readonly pid: number;
}

/** Undefined for what is no owner's name. */
export function placeOfOwner(owner: string): OwnerSite | undefined {
  return parse(owner);
}

function nonce(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

// From the right: a host name may hold colons.
const OWNER = /^(?<host>.+):(?<pid>[1-9]\d{0,9}):[0-9a-f]+$/;

function parse(owner: string): OwnerSite | undefined {
  const { host, pid } = OWNER.exec(owner)?.groups ?? {};
  return host && pid ? { host, pid: Number(pid) } : undefined;
}

function processExists(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Anything but "no such process" (a process of another user) counts as alive.
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
