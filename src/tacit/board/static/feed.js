/** Events of the server, and whether they come: the connection is opened again by itself. */

const WAITS = [1, 1, 2, 3, 5];
const NAMES = ["runs", "progress", "peers", "beat"];
const SILENCE = 25;

/** Events to whoever listens, over one connection. */
export class Feed {
  #listeners = new Map();
  #source = null;
  #tries = 0;
  #heard = 0;
  #beats = false;
  #timer = null;
  /** Events so far: whoever has asked before it listened sees whether it has missed one. */
  count = 0;
  /** "connecting", "open" or "lost". */
  state = "connecting";
  /** When the connection was lost, in seconds. */
  since = null;

  start() {
    this.#open();
    setInterval(() => this.#watch(), 5000);
    addEventListener("online", () => this.state === "lost" && this.#open());
    document.addEventListener("visibilitychange", () => !document.hidden && this.state === "lost" && this.#open());
  }

  /** Call `listener` with the data of each event of a name, or with the state for "state"; returns how to stop that. */
  on(name, listener) {
    const all = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, all.add(listener));
    return () => all.delete(listener);
  }

  #tell(name, data) {
    for (const listener of this.#listeners.get(name) ?? []) listener(data);
  }

  #open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#beats = false;
    this.#source = new EventSource("api/events");
    this.#source.onopen = () => { this.#tries = 0; this.#heard = Date.now(); this.#become("open"); };
    this.#source.onerror = () => this.#lose();
    for (const name of NAMES) {
      this.#source.addEventListener(name, (event) => {
        this.#heard = Date.now();
        if (name === "beat") this.#beats = true;
        else { this.count += 1; this.#tell(name, JSON.parse(event.data)); }
      });
    }
  }

  #lose() {
    this.#source.close();
    this.#become("lost");
    this.#timer = setTimeout(() => this.#open(), 1000 * WAITS[Math.min(this.#tries++, WAITS.length - 1)]);
  }

  /** A connection that is open and silent is lost, too: a server that hangs, a tunnel that is gone. */
  #watch() {
    if (this.#beats && this.state === "open" && Date.now() - this.#heard > SILENCE * 1000) this.#lose();
  }

  #become(state) {
    if (state === this.state) return;
    const before = this.state;
    this.state = state;
    this.since = state === "lost" ? Date.now() / 1000 : null;
    this.count += 1;
    this.#tell("state", { state, before });
  }
}
