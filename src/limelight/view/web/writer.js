// Continues the text of a language model: the typed text, and the ids of the tokens that were added to it.

const PAUSE = 200; // milliseconds between two tokens, so that they can be read
const SEEDS = 2 ** 31;

// requester: sends a request and returns its record, or nothing if it failed or a newer one was sent.
// onAdded: receives the record of a changed text. onChange: `can` or `isRunning` may have changed.
export class Writer {
  constructor({ requester, temperature, onAdded, onChange, wait = sleep, seed = randomSeed }) {
    Object.assign(this, { requester, temperature, onAdded, onChange, wait, seed });
    Object.assign(this, { given: "", tokens: [], room: 0, work: null, run: null });
  }

  get isRunning() {
    return this.run !== null;
  }

  get can() {
    return { add: this.room > 0, undo: this.tokens.length > 0 };
  }

  // The text was edited: what was added before is a part of it now.
  type(given, send) {
    this.halt();
    Object.assign(this, { given, tokens: [] });
    this.onChange();
    send({ given });
  }

  // Every record that is shown.
  received({ continuation }) {
    Object.assign(this, { tokens: continuation.tokens, room: continuation.room });
    this.onChange();
  }

  next() {
    return this.change(this.tokens, { temperature: this.temperature(), seed: this.seed() });
  }

  choose(token) {
    this.stop();
    return this.can.add ? this.change([...this.tokens, token]) : null;
  }

  undo() {
    this.stop();
    return this.can.undo ? this.change(this.tokens.slice(0, -1)) : null;
  }

  // The same text again: the model has changed.
  refresh() {
    this.stop();
    return this.requester.send({ given: this.given, tokens: this.tokens });
  }

  // One token after the other, until the document ends, the context is full, or `stop`.
  async generate() {
    const run = {};
    this.run = run;
    this.onChange();
    let record;
    do {
      [record] = await Promise.all([this.next(), this.wait(PAUSE)]);
    } while (this.run === run && record && !record.continuation.ended && this.can.add);
    if (this.run !== run) return;
    this.run = null;
    this.onChange();
  }

  stop() {
    if (!this.isRunning) return;
    this.halt();
    this.requester.cancel();
    this.onChange();
  }

  halt() {
    Object.assign(this, { run: null, work: null });
  }

  // A second click, before the first one is answered, does nothing.
  async change(tokens, more = {}) {
    if (this.work) return null;
    const work = {};
    this.work = work;
    const record = await this.requester.send({ given: this.given, tokens, ...more });
    if (this.work !== work) return null;
    this.work = null;
    if (record) this.onAdded(record);
    return record;
  }
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function randomSeed() {
  return Math.floor(SEEDS * Math.random());
}
