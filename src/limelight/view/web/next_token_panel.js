// The panel of a language model: the distribution of the next token at a temperature, and the buttons of the
// live page that add tokens to the text.
import { handleArrowKeys } from "./arrow_keys.js";
import { bars } from "./bars.js";
import { make } from "./dom.js";
import { displayText, percent, quoted } from "./format.js";
import { atTemperature, nearest, temperaturesOf } from "./next_tokens.js";

const DIGITS = 1; // of a temperature

// temperature, setTemperature: read and change the state of the page. writer: null on a saved page.
export class NextTokenPanel {
  constructor({ temperature, setTemperature, writer = null }) {
    Object.assign(this, { temperature, setTemperature, writer, record: null });
    this.texts = make("div", { class: "texts" });
    this.title = make("h3");
    this.lists = make("div", { class: "bar-columns", role: "group", "aria-label": "next token" });
    handleArrowKeys(this.lists, ".candidate");
    const left = make("div", { class: "texts" }, this.texts, this.makeSlider(), ...this.makeButtons());
    this.others = make("p", { class: "muted note" });
    const right = make("div", { class: "distribution" }, this.title, this.lists, this.others);
    this.node = make("div", { class: "next-token" }, make("div", { class: "summary" }, left, right));
    this.node.hidden = true;
  }

  makeSlider() {
    this.slider = make("input", { type: "range", min: "0", step: "1", input: () => this.onSlide() });
    this.value = make("output", { class: "number" });
    return make("label", { class: "choice" }, make("span", {}, "Temperature"), this.slider, this.value);
  }

  makeButtons() {
    if (!this.writer) return [];
    const { writer } = this;
    const button = (text, title, click) => make("button", { type: "button", title, click }, text);
    this.next = button("Next token", "add a random token", () => writer.next());
    this.generate = button("Generate", "add one token after the other", () =>
      writer.isRunning ? writer.stop() : writer.generate(),
    );
    this.undo = button("Undo", "remove the last added token", () => writer.undo());
    this.note = make("p", { class: "muted note", role: "status" });
    return [make("div", { class: "buttons" }, this.next, this.generate, this.undo), this.note];
  }

  onSlide() {
    this.setTemperature(temperaturesOf(this.record)[Number(this.slider.value)]);
    this.draw();
  }

  // Called when the text has changed, or what can be done with it.
  update() {
    const { isRunning, can } = this.writer;
    this.next.disabled = isRunning || !can.add;
    this.generate.disabled = !isRunning && !can.add;
    this.generate.textContent = isRunning ? "Stop" : "Generate";
    this.undo.disabled = !can.undo;
    const isFull = this.record && !can.add;
    this.note.textContent = isFull ? "The text has its maximum length." : "";
    for (const candidate of this.lists.querySelectorAll(".candidate")) candidate.disabled = !can.add;
  }

  show(record) {
    this.record = record;
    this.node.hidden = false;
    const part = (label, content) => make("div", {}, make("span", { class: "label" }, label), content);
    const given = part("input", make("p", { class: "given" }, record.given));
    const answer = make("p", { class: "answer" }, make("strong", {}, displayText(record.answer)));
    this.texts.replaceChildren(
      ...(this.writer ? [] : [given]),
      part("most likely continuation", answer),
    );
    this.title.textContent = `Next token after ${quoted(record.sides[record.stepped].at(-1))}`;
    this.draw();
  }

  draw() {
    const { record } = this;
    if (!record) return;
    const temperatures = temperaturesOf(record);
    const position = nearest(temperatures, this.temperature());
    this.slider.max = String(temperatures.length - 1);
    this.slider.value = String(position);
    this.value.textContent = temperatures[position].toFixed(DIGITS);
    this.slider.setAttribute("aria-valuetext", this.value.textContent);
    const focused = this.candidates().indexOf(document.activeElement);
    const { candidates: likely, rest } = atTemperature(record, record.steps.length - 1, this.temperature());
    this.lists.replaceChildren(...this.columns(likely));
    this.others.textContent = `all other tokens: ${percent(rest)}`;
    const candidates = this.candidates();
    candidates.forEach((one, i) => one.setAttribute("tabindex", i === Math.max(0, focused) ? "0" : "-1"));
    candidates[focused]?.focus({ preventScroll: true });
    if (this.writer) this.update();
  }

  candidates() {
    return [...this.lists.querySelectorAll(".candidate")];
  }

  // The candidates in two columns, which are below each other on a narrow page.
  columns(candidates) {
    const { record, writer } = this;
    const half = Math.ceil(candidates.length / 2);
    const choose = (from) => writer && ((i) => writer.choose(record.continuation.choices[from + i]));
    const first = bars(candidates.slice(0, half), { onChoose: choose(0) });
    const second = bars(candidates.slice(half), { onChoose: choose(half) });
    second.setAttribute("start", String(half + 1));
    return [first, second];
  }
}
