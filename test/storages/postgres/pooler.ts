import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A session of the server, which is one client's for the length of a transaction. */
interface Session {
  readonly socket: Socket;
  /** Receives what the server sends. */
  receive: (bytes: Buffer, ready: string | undefined) => void;
}

/**
 * Stands between clients and the server as a pooler in transaction mode does that knows nothing about statements with names: each
 * transaction goes to the session that was unused for the longest time, whichever client had it, and messages of clients are
 * passed on as they are.
 */
export class Pooler {
  /** How many statements were given a name. */
  named = 0;
  transactions = 0;
  readonly #server: Server;
  readonly #to: number;
  readonly #idle: Session[] = [];
  readonly #waiting: ((session: Session) => void)[] = [];
  readonly #sockets = new Set<Socket>();

  private constructor(to: number) {
    this.#to = to;
    this.#server = createServer((client) => this.#accept(client));
  }

  /** A pooler before the server of this URL, closed after the test; and the URL by which it is reached. */
  static async open(url: string): Promise<{ readonly pooler: Pooler; readonly url: string }> {
    const way = new URL(url);
    const pooler = new Pooler(Number(way.port));
    pooler.#server.listen(0, "127.0.0.1");
    await once(pooler.#server, "listening");
    onTestFinished(() => {
      for (const socket of pooler.#sockets) socket.destroy();
      pooler.#server.close();
    });
    way.port = String((pooler.#server.address() as { readonly port: number }).port);
    return { pooler, url: way.href };
  }

  #accept(client: Socket): void {
    this.#keep(client);
    let session: Session | undefined;
    let said: Buffer[] = [];
    let going = Promise.resolve();
    const answered = (bytes: Buffer, ready: string | undefined): void => {
      client.write(bytes);
      if (ready !== "I" || session === undefined) return;
      const done = session;
      session = undefined;
      this.transactions += 1;
      this.#giveBack(done);
    };
    const send = async (bytes: Buffer): Promise<void> => {
      session ??= await this.#session();
      session.receive = answered;
      session.socket.write(bytes);
    };
    let greeted = false;
    client.on(
      "data",
      frames(
        () => !greeted,
        (frame) => {
          if (!greeted) {
            greeted = true;
            // A new client brings a session along, and gets its greeting.
            session = this.#connect(frame, answered);
            return;
          }
          const type = String.fromCharCode(frame[0]!);
          if (type === "X") return;
          if (type === "P" && frame[5] !== 0) this.named += 1;
          said.push(frame);
          if (type !== "S" && type !== "Q") return;
          const whole = Buffer.concat(said);
          said = [];
          going = going.then(() => send(whole));
        },
      ),
    );
  }

  #connect(greeting: Buffer, receive: Session["receive"]): Session {
    const socket = connect(this.#to, "127.0.0.1");
    this.#keep(socket);
    const session: Session = { socket, receive };
    socket.write(greeting);
    socket.on(
      "data",
      frames(
        () => false,
        (frame) => {
          session.receive(frame, frame[0] === 0x5a ? String.fromCharCode(frame[5]!) : undefined);
        },
      ),
    );
    return session;
  }

  #session(): Promise<Session> {
    const session = this.#idle.shift();
    if (session !== undefined) return Promise.resolve(session);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #giveBack(session: Session): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(session);
    else next(session);
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {});
  }
}

/** Takes bytes apart into messages. `bare`: the next one has no letter in front. */
function frames(bare: () => boolean, receive: (frame: Buffer) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (;;) {
      const head = bare() ? 0 : 1;
      if (rest.length < head + 4) return;
      const end = head + rest.readInt32BE(head);
      if (rest.length < end) return;
      const frame = rest.subarray(0, end);
      rest = rest.subarray(end);
      receive(frame);
    }
  };
}
