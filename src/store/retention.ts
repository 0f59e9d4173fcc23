export class Retention {
  constructor(..._: unknown[]) {}
  start(): void {}
  async stop(): Promise<void> {}
}
