/**
 * Places of agents, by forces: links pull, agents push, and the middle draws a little. A worker: it is sent
 * {agents, links, seed, quiet} and answers with {places, done}, as often as the picture has changed enough to be drawn.
 *
 * The push of far agents is that of the cell of a quadtree that holds them (Barnes and Hut, 1986): n log n in each of
 * some hundred rounds. The same graph and seed have the same places.
 */

const ROUNDS = 260, WIDE = 0.85, DEEPEST = 22;

/** Return a source of numbers from 0 to 1 that begins at a seed (Marsaglia's xorshift of 32 bits). */
function chance(seed) {
  let state = (seed * 2654435761 + 1) >>> 0 || 1;
  return () => {
    state ^= state << 13; state >>>= 0; state ^= state >>> 17; state ^= state << 5; state >>>= 0;
    return state / 4294967296;
  };
}

/** A quadtree over places, rebuilt in the same memory. */
class Tree {
  constructor(agents) {
    this.room = 8 * agents + 64;
    this.child = new Int32Array(4 * this.room);
    this.mass = new Float64Array(this.room);
    this.x = new Float64Array(this.room);
    this.y = new Float64Array(this.room);
    this.wide = new Float64Array(this.room);
    this.stack = new Int32Array(4 * this.room);
  }

  /** Cells are numbered from 1; in `child`, 0 is empty, and -k - 1 is agent k. */
  build(px, py) {
    const n = px.length;
    let low = Infinity, high = -Infinity;
    for (let k = 0; k < n; k++) { low = Math.min(low, px[k], py[k]); high = Math.max(high, px[k], py[k]); }
    this.cells = 1;
    this.#cell(high - low || 1);
    for (let k = 0; k < n; k++) this.#add(px, py, k, low, low, high - low || 1);
    for (let cell = 1; cell < this.cells; cell++) { this.x[cell] /= this.mass[cell]; this.y[cell] /= this.mass[cell]; }
  }

  #cell(wide) {
    const cell = this.cells++;
    this.child.fill(0, 4 * cell, 4 * cell + 4);
    this.mass[cell] = this.x[cell] = this.y[cell] = 0;
    this.wide[cell] = wide;
    return cell;
  }

  #add(px, py, agent, left, top, wide) {
    let cell = 1;
    for (let depth = 0; ; depth++) {
      this.mass[cell] += 1; this.x[cell] += px[agent]; this.y[cell] += py[agent];
      wide /= 2;
      const right = px[agent] >= left + wide, below = py[agent] >= top + wide, at = 4 * cell + (right ? 1 : 0) + (below ? 2 : 0);
      if (right) left += wide;
      if (below) top += wide;
      const there = this.child[at];
      if (there === 0) { this.child[at] = -agent - 1; return; }
      if (there > 0) { cell = there; continue; }
      if (depth >= DEEPEST || this.cells >= this.room) return; // as good as the same place: the cell's mass tells of it
      const other = -there - 1, made = this.#cell(wide);
      this.child[at] = made;
      this.mass[made] = 1; this.x[made] = px[other]; this.y[made] = py[other];
      this.child[4 * made + (px[other] >= left + wide / 2 ? 1 : 0) + (py[other] >= top + wide / 2 ? 2 : 0)] = there;
      cell = made;
    }
  }

  /** Add to (fx, fy) what all others push agent k with, `strength` over the distance. */
  push(px, py, k, strength, force) {
    const { stack, child } = this;
    let top = 0;
    stack[top++] = 1;
    while (top) {
      const cell = stack[--top], dx = px[k] - this.x[cell], dy = py[k] - this.y[cell], square = dx * dx + dy * dy;
      if (this.wide[cell] ** 2 < WIDE * WIDE * square) {
        const pull = strength * this.mass[cell] / (square + 0.01);
        force[0] += dx * pull; force[1] += dy * pull;
        continue;
      }
      for (let at = 4 * cell; at < 4 * cell + 4; at++) {
        const there = child[at];
        if (there > 0) stack[top++] = there;
        else if (there < 0 && -there - 1 !== k) {
          const other = -there - 1, ex = px[k] - px[other], ey = py[k] - py[other], pull = strength / (ex * ex + ey * ey + 0.01);
          force[0] += ex * pull; force[1] += ey * pull;
        }
      }
    }
  }
}

/**
 * Return places as x0, y0, x1, y1, ...
 *
 * `links` are sender, receiver, sender, receiver, ...; `seen` is called with the places and the share that is done.
 */
export function placed(agents, links, seed = 1, seen = () => {}) {
  const draw = chance(seed), px = new Float64Array(agents), py = new Float64Array(agents), fx = new Float64Array(agents), fy = new Float64Array(agents);
  const degree = new Float64Array(agents), force = [0, 0], wide = Math.sqrt(agents);
  for (let k = 0; k < agents; k++) {
    const angle = 2 * Math.PI * k / agents;
    px[k] = wide * (Math.cos(angle) + 0.1 * (draw() - 0.5));
    py[k] = wide * (Math.sin(angle) + 0.1 * (draw() - 0.5));
  }
  for (let at = 0; at < links.length; at++) degree[links[at]] += 1;
  const tree = new Tree(agents), result = new Float32Array(2 * agents);
  const told = (share) => {
    for (let k = 0; k < agents; k++) { result[2 * k] = px[k]; result[2 * k + 1] = py[k]; }
    seen(result, share);
  };
  for (let round = 0; round < ROUNDS; round++) {
    const heat = 0.6 * wide * (1 - round / ROUNDS) ** 2 / 4 + 0.01;
    tree.build(px, py);
    for (let k = 0; k < agents; k++) {
      force[0] = -0.02 * px[k]; force[1] = -0.02 * py[k];
      tree.push(px, py, k, 1, force);
      fx[k] = force[0]; fy[k] = force[1];
    }
    for (let at = 0; at < links.length; at += 2) {
      const a = links[at], b = links[at + 1], dx = px[b] - px[a], dy = py[b] - py[a];
      const pull = 0.35 * Math.hypot(dx, dy) / Math.sqrt(Math.max(1, Math.min(degree[a], degree[b])));
      fx[a] += dx * pull; fy[a] += dy * pull; fx[b] -= dx * pull; fy[b] -= dy * pull;
    }
    for (let k = 0; k < agents; k++) {
      const size = Math.hypot(fx[k], fy[k]) || 1, step = Math.min(size, heat) / size;
      px[k] += fx[k] * step; py[k] += fy[k] * step;
    }
    if (round % 12 === 11) told((round + 1) / ROUNDS);
  }
  told(1);
  return result;
}

/** Return agents in rings, group in group, where there are no links. */
export function spread(agents) {
  const result = new Float32Array(2 * agents);
  for (let k = 0; k < agents; k++) {
    const far = Math.sqrt(k + 0.5), angle = k * 2.399963229728653; // the golden angle: a sunflower
    result[2 * k] = far * Math.cos(angle);
    result[2 * k + 1] = far * Math.sin(angle);
  }
  return result;
}

if (typeof WorkerGlobalScope !== "undefined") {
  onmessage = ({ data: { agents, links, seed, quiet } }) => {
    const places = links.length ? placed(agents, links, seed, (now, share) => { if (!quiet && share < 1) postMessage({ places: now.slice(), done: false, share }); }) : spread(agents);
    postMessage({ places, done: true, share: 1 });
  };
}
