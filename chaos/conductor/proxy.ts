import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** The current faults of the connection to the server. */
export interface Way {
  /** How long each piece takes, at least, and how much longer at most. */
  readonly latencyMs?: number | undefined;
  readonly jitterMs?: number | undefined;
  /** Bytes a second, in each direction of each connection. */
  readonly bandwidth?: number | undefined;
}

/** One connection through the proxy. */
export interface Passage {
  /** What the client sent first, as far as it was kept: enough to recognise the kind of connection. */
  readonly said: string;
  /** From now on no bytes pass, in either direction, without an error on either side. */
  blackhole(): void;
  /** From now on no bytes pass, in either direction; they are buffered, even if a side closes meanwhile. */
  stall(): void;
  /** The buffered bytes are delivered, in order, however late. */
  resume(): void;
  /** Resolves when the server has seen the end of the connection. */
  readonly over: Promise<unknown>;
  /** The client sees a reset. */
  reset(): void;
}

const KEPT_BYTES = 4_096;
/** A connection with a bandwidth delivers no more than this at a time. */
const PACKET_BYTES = 8_192;

/** A proxy between clients and a local server that injects network faults. */
export class Proxy {
  readonly passages = new Set<Passage>();
  way: Way = {};
  /** New connections are refused. */
  refusing = false;
  readonly #server: Server;
  readonly #random: () => number;
  readonly #to: number;

  private constructor(to: number, random: () => number) {
    this.#to = to;
    this.#random = random;
    this.#server = createServer((client) => this.#accept(client));
  }

  static async open(to: number, random: () => number = Math.random): Promise<Proxy> {
    const proxy = new Proxy(to, random);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as { readonly port: number }).port;
  }

  resetAll(): void {
    for (const passage of this.passages) passage.reset();
  }

  async close(): Promise<void> {
    this.resetAll();
    this.#server.close();
    await once(this.#server, "close");
  }

  #accept(client: Socket): void {
    if (this.refusing) {
      client.resetAndDestroy();
      return;
    }
    const server = connect(this.#to, "127.0.0.1");
    let said = "";
    let lost = false;
    let stalled = false;
    let kept: (() => void)[] = [];
    const passage: Passage = {
      get said() {
        return said;
      },
      blackhole: () => {
        lost = true;
        server.destroy();
      },
      stall: () => {
        stalled = true;
      },
      resume: () => {
        stalled = false;
        const late = kept;
        kept = [];
        for (const arrive of late) arrive();
      },
      over: new Promise((resolve) => server.once("close", resolve)),
      reset: () => {
        client.resetAndDestroy();
        server.destroy();
      },
    };
    this.passages.add(passage);
    const carry = (from: Socket, to: Socket, onPiece: (piece: Buffer) => void) => {
      let free = 0;
      from.on("data", (received: Buffer) => {
        onPiece(received);
        if (lost) return;
        const { latencyMs = 0, jitterMs = 0, bandwidth } = this.way;
        const now = performance.now();
        // Pieces stay in order, however long each of them takes.
        free = Math.max(free, now + latencyMs + this.#random() * jitterMs);
        // A slow network delivers little at a time, and not all of a piece at its end.
        const most = bandwidth === undefined ? received.length : PACKET_BYTES;
        for (let at = 0; at < received.length; at += most) {
          const piece = received.subarray(at, at + most);
          if (bandwidth !== undefined) free += (piece.length / bandwidth) * 1_000;
          const pass = () => {
            if (stalled) kept.push(pass);
            else if (!lost && !to.destroyed) to.write(piece);
          };
          if (free <= now) pass();
          else setTimeout(pass, free - now);
        }
      });
      from.on("error", () => {});
      from.on("close", () => {
        // A blackhole neither closes the client's connection nor passes on that the client has closed it.
        const leave = () => {
          if (stalled) kept.push(() => to.end());
          else to.destroy();
        };
        if (!lost) setTimeout(leave, Math.max(0, free - performance.now()));
        if (from === client) this.passages.delete(passage);
      });
    };
    carry(client, server, (piece) => {
      if (said.length < KEPT_BYTES) said += piece.toString("latin1");
    });
    carry(server, client, () => {});
  }
}
