/** Questions to the board's server, with errors in its words. */

/** A refusal by the server, or no answer at all (status 0). */
export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new Refused(0, "The board's server does not answer.");
  }
  if (answer.ok) return answer.json();
  let words = `The server answered with ${answer.status}.`;
  try {
    words = (await answer.json()).error ?? words;
  } catch { /* an answer without words */ }
  throw new Refused(answer.status, words);
}

/** Return the answer to a question. */
export const get = (path) => asked(path, {});

/** Ask for something to be done. */
export const post = (path) => asked(path, { method: "POST", headers: { "X-Tacit-Board": "1" } });

/** Return a part of a path, of any text. */
export const part = (text) => encodeURIComponent(text);
