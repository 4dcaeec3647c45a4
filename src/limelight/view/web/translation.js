// The answer word by word: what is written, what was looked at, what else might have come.
import { bars } from "./bars.js";
import { inOrder } from "./bigmap.js";
import { cells, paint, roomIn } from "./canvas.js";
import { css, inkOn, scale, shade, theme } from "./colours.js";
import { ALL } from "./decode.js";
import { choice, make, newId } from "./dom.js";
import { drawMap } from "./heatmap.js";
import { candidatesAt, clampStep, stepBy, stepMap, writtenAt } from "./steps.js";
import { whole } from "./window.js";
import { quoted, visible } from "./words.js";

export function translation(host) {
  const view = new Translation(host);
  return {
    node: view.node,
    start: () => view.fill(),
    redraw: () => view.draw(),
    recolour: () => view.fill(),
    picture: () => view.canvas,
    title: () => `step ${view.step + 1}: ${writtenAt(host.record, view.step).now}`,
  };
}

class Translation {
  constructor(host) {
    this.host = host;
    this.fits = stepMap(host.record);
    this.count = host.record.steps.length;
    this.controls = make("div", { class: "controls" });
    this.stepper = this.makeStepper();
    this.source = make("p", { class: "tokens", "aria-label": "what was looked at" });
    this.written = make("p", { class: "tokens", "aria-label": "what is written" });
    this.text = make("p", { class: "readout", id: newId("readout"), "aria-live": "polite" });
    this.likely = make("div");
    this.canvas = make("canvas", { role: "img" });
    this.node = make("div", { class: "translation", keydown: (event) => this.onKey(event) });
    this.node.append(...this.parts());
  }

  parts() {
    const { record } = this.host;
    const block = (title, ...content) =>
      make("section", { class: "block" }, make("h3", {}, title), ...content);
    const beams = record.candidates.length
      ? [block("Whole answers", bars(record.candidates, { chosen: record.answer, longest: 300 }))]
      : [];
    const words = [block("Looked at", this.source, this.text), block("Written", this.written)];
    this.mapBlock = block("All steps", this.canvas);
    const left = make(
      "div",
      { class: "all" },
      this.stepper,
      ...words,
      block("Candidates for this place", this.likely),
      ...beams,
    );
    return [this.controls, make("div", { class: "halves" }, left, this.mapBlock)];
  }

  makeStepper() {
    const button = (text, label, key) =>
      make(
        "button",
        { type: "button", "aria-label": label, click: () => this.go(stepBy(key, this.step, this.count)) },
        text,
      );
    const most = String(this.count - 1);
    const input = () => this.go(Number(this.slider.value));
    this.slider = make("input", {
      type: "range",
      min: "0",
      max: most,
      step: "1",
      "aria-label": "step",
      input,
    });
    this.place = make("span", { class: "muted number" });
    this.before = button("‹ back", "previous step", "ArrowLeft");
    this.after = button("next ›", "next step", "ArrowRight");
    return make("div", { class: "stepper" }, this.before, this.slider, this.after, this.place);
  }

  get step() {
    return clampStep(this.host.state.step, this.count);
  }

  get map() {
    return this.host.chosen(this.fits, this.host.maps.findLastIndex(this.fits));
  }

  fill() {
    const { host, map } = this;
    const change = (name, place) => (value) => {
      host.set({ [name]: value });
      this.fill();
      this.controls.querySelectorAll("select")[place]?.focus();
    };
    this.controls.replaceChildren();
    if (map >= 0) this.controls.append(choice("Map", host.options(this.fits), map, change("map", 0)));
    if (map >= 0 && host.maps[map].heads > 1) {
      this.controls.append(choice("Head", headOptions(host.maps[map]), host.head(map), change("head", 1)));
    }
    this.image = null;
    this.draw();
  }

  go(step) {
    this.host.set({ step });
    this.draw();
  }

  onKey(event) {
    const isElsewhere = event.target.matches("select, input");
    const step = isElsewhere ? null : stepBy(event.key, this.step, this.count);
    if (step === null) return;
    event.preventDefault();
    this.go(step);
  }

  draw() {
    const { host, step, count } = this;
    this.slider.value = String(step);
    this.place.textContent = `${step + 1} of ${count}`;
    this.before.disabled = step === 0;
    this.after.disabled = step === count - 1;
    const { before, now, after } = writtenAt(host.record, step);
    const chip = (name) => (token) => make("span", { class: `token ${name}` }, visible(token));
    this.written.replaceChildren(...before.map(chip("")), chip("now")(now), ...after.map(chip("later")));
    this.likely.replaceChildren(bars(candidatesAt(host.record, step), { chosen: now }));
    this.drawLooks(now);
  }

  drawLooks(now) {
    const { host, map, step } = this;
    this.mapBlock.hidden = map < 0;
    if (map < 0) return;
    const [weights, head] = [host.maps[map], host.head(map)];
    const row = weights.row(head, step);
    const table = scale(theme());
    const largest = row.reduce((a, b) => Math.max(a, b), 0);
    this.source.replaceChildren(
      ...weights.keys.map((token, column) => shaded(token, row[column], table[shade(row[column], largest)])),
    );
    this.text.textContent = `For ${quoted(now)} the model looks most at ${inOrder(weights.keys, row)}`;
    this.image ??= paint(cells(weights, head, weights.largest));
    const width = Math.min(roomIn(this.mapBlock), 620);
    const cross = { row: step, column: row.indexOf(largest) };
    const view = whole(weights.rows, weights.columns);
    drawMap(this.canvas, { image: this.image, weights, view, cross, width, tallest: 620 });
    this.canvas.setAttribute(
      "aria-label",
      `attention of all steps: ${weights.map.part}, layer ${weights.map.layer}`,
    );
  }
}

function shaded(token, weight, colour) {
  const chip = make("span", { class: "token", title: weight.toFixed(3) }, visible(token));
  if (weight > 0) {
    chip.style.backgroundColor = css(colour);
    chip.style.color = inkOn(colour);
  }
  return chip;
}

function headOptions({ heads }) {
  const each = Array.from({ length: heads }, (_, value) => ({ value, text: `head ${value}` }));
  return [{ value: ALL, text: "mean of heads" }, ...each];
}
