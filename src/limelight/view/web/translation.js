// The step view: for each output token its candidates, their probabilities and its attention weights.
import { bars } from "./bars.js";
import { cellGrid, contentWidth, paint } from "./canvas.js";
import { colourScale, css, scaleIndex, textColourOn, theme } from "./colours.js";
import { ALL } from "./decode.js";
import { labelledSelect, make, newId } from "./dom.js";
import { displayToken, quoted } from "./format.js";
import { drawMap } from "./heatmap.js";
import { strongestTokens } from "./large_map.js";
import { isText } from "./next_tokens.js";
import { candidatesAt, clampStep, isStepMap, outputAt, stepBy } from "./steps.js";
import { fullView } from "./viewport.js";

export function translation(host) {
  const view = new Translation(host);
  return {
    node: view.node,
    start: () => view.fill(),
    redraw: () => view.draw(),
    recolour: () => view.fill(),
    canvas: () => view.canvas,
    title: () => `step ${view.step + 1}: ${outputAt(host.record, view.step).current}`,
  };
}

class Translation {
  constructor(host) {
    this.host = host;
    this.fits = isStepMap(host.record);
    this.count = host.record.steps.length;
    this.controls = make("div", { class: "controls" });
    this.stepper = this.makeStepper();
    this.keys = make("p", { class: "tokens", "aria-label": "attended tokens" });
    this.output = make("p", { class: "tokens", "aria-label": "output tokens" });
    this.text = make("p", { class: "readout", id: newId("readout"), "aria-live": "polite" });
    this.candidates = make("div");
    this.canvas = make("canvas", { role: "img" });
    this.node = make("div", { class: "translation", keydown: (event) => this.onKey(event) });
    this.node.append(...this.parts());
  }

  parts() {
    const { record } = this.host;
    const block = (title, ...content) =>
      make("section", { class: "block" }, make("h3", {}, title), ...content);
    const beams = record.candidates.length
      ? [block("Complete outputs", bars(record.candidates, { chosen: record.answer, maxLength: 300 }))]
      : [];
    const [output, candidates] = isText(record)
      ? ["Text: point at a token to select it", "Candidates for the token after it"]
      : ["Output", "Candidates for this step"];
    if (isText(record)) this.output.addEventListener("pointerover", (event) => this.onPoint(event));
    const tokens = [block("Attention", this.keys, this.text), block(output, this.output)];
    this.mapBlock = block("All steps", this.canvas);
    const left = make(
      "div",
      { class: "all" },
      this.stepper,
      ...tokens,
      block(candidates, this.candidates),
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
    const last = String(this.count - 1);
    const input = () => this.go(Number(this.slider.value));
    this.slider = make("input", {
      type: "range",
      min: "0",
      max: last,
      step: "1",
      "aria-label": "step",
      input,
    });
    this.counter = make("span", { class: "muted number" });
    this.before = button("‹ previous", "previous step", "ArrowLeft");
    this.after = button("next ›", "next step", "ArrowRight");
    return make("div", { class: "stepper" }, this.before, this.slider, this.after, this.counter);
  }

  get step() {
    return clampStep(this.host.state.step, this.count);
  }

  get map() {
    return this.host.selectedMap(this.fits, this.host.maps.findLastIndex(this.fits));
  }

  fill() {
    const { host, map } = this;
    const change = (name, position) => (value) => {
      host.set({ [name]: value });
      this.fill();
      this.controls.querySelectorAll("select")[position]?.focus();
    };
    this.controls.replaceChildren();
    if (map >= 0) {
      this.controls.append(labelledSelect("Map", host.mapOptions(this.fits), map, change("map", 0)));
      const [heads, head] = [headOptions(host.maps[map]), host.selectedHead(map)];
      if (host.maps[map].heads > 1) {
        this.controls.append(labelledSelect("Head", heads, head, change("head", 1)));
      }
    }
    this.image = null;
    this.draw();
  }

  go(step) {
    this.host.set({ step });
    this.draw();
  }

  onPoint(event) {
    const step = [...this.output.children].indexOf(event.target);
    if (step >= 0 && step !== this.step) this.go(step);
  }

  onKey(event) {
    const isField = event.target.matches("select, input"); // a field handles its own keys
    const step = isField ? null : stepBy(event.key, this.step, this.count);
    if (step === null) return;
    event.preventDefault();
    this.go(step);
  }

  draw() {
    const { host, step, count } = this;
    this.slider.value = String(step);
    this.counter.textContent = `${step + 1} of ${count}`;
    this.before.disabled = step === 0;
    this.after.disabled = step === count - 1;
    const { before, current, after } = outputAt(host.record, step);
    const chip = (name) => (token) => make("span", { class: `token ${name}` }, displayToken(token));
    const tokens = [...before.map(chip("")), chip("current")(current), ...after.map(chip("later"))];
    this.output.replaceChildren(...tokens);
    const chosen = isText(host.record) ? after[0] : current;
    const candidates = candidatesAt(host.record, step, host.state.temperature);
    this.candidates.replaceChildren(bars(candidates, { chosen }));
    this.drawAttention(current);
  }

  drawAttention(current) {
    const { host, map, step } = this;
    this.mapBlock.hidden = map < 0;
    if (map < 0) return;
    const [weights, head] = [host.maps[map], host.selectedHead(map)];
    const row = weights.row(head, step);
    const table = colourScale(theme());
    const largest = row.reduce((a, b) => Math.max(a, b), 0);
    const colourOf = (weight) => table[scaleIndex(weight, largest)];
    const chips = weights.keys.map((token, i) => weightChip(token, row[i], colourOf(row[i])));
    this.keys.replaceChildren(...chips);
    const strongest = strongestTokens(weights.keys, row);
    this.text.textContent = `For ${quoted(current)}, the model attends most to ${strongest}`;
    this.image ??= paint(cellGrid(weights, head, weights.largest));
    const width = Math.min(contentWidth(this.mapBlock), 620);
    const crosshair = { row: step, column: row.indexOf(largest) };
    const view = fullView(weights.rows, weights.columns);
    drawMap(this.canvas, { image: this.image, weights, view, crosshair, width, maxHeight: 620 });
    this.canvas.setAttribute(
      "aria-label",
      `attention weights of all steps: ${weights.map.part}, layer ${weights.map.layer}`,
    );
  }
}

function weightChip(token, weight, colour) {
  const chip = make("span", { class: "token", title: weight.toFixed(3) }, displayToken(token));
  if (weight > 0) {
    chip.style.backgroundColor = css(colour);
    chip.style.color = textColourOn(colour);
  }
  return chip;
}

function headOptions({ heads }) {
  const each = Array.from({ length: heads }, (_, value) => ({ value, text: `head ${value}` }));
  return [{ value: ALL, text: "mean over heads" }, ...each];
}
