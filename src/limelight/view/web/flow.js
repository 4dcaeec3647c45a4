// The flow view: queries on the left, keys on the right, and a line for each weight.
import { contentWidth, prepare } from "./canvas.js";
import { headColour } from "./colours.js";
import { labelledSelect, make, newId } from "./dom.js";
import { drawLines, drawTokens, shapeOf } from "./flow_drawing.js";
import { quoted } from "./format.js";
import { labelWidth } from "./heatmap.js";
import { strongestTokens } from "./large_map.js";
import { indexAt, linesOf, sharesOf, visibleLines, yOf } from "./lines.js";
import { clamp } from "./viewport.js";

const HINT =
  "Left: queries. Right: keys. Point at a token, or use the arrow keys, to show only the lines of one token.";
const MOVES = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: 0, ArrowRight: 0 };

export function flow(host) {
  const view = new Flow(host);
  return {
    node: view.node,
    start: () => view.fill(),
    redraw: () => view.draw(),
    recolour: () => view.fill(),
    canvas: () => view.canvas,
    title: () => view.name,
  };
}

class Flow {
  constructor(host) {
    this.host = host;
    this.focus = null; // {side: "queries" | "keys", index}
    this.lines = null; // computed again when the map, the heads or the focus change
    this.controls = make("div", { class: "controls" });
    this.canvas = make("canvas", { role: "img" });
    this.text = make("p", { class: "readout", id: newId("readout"), "aria-live": "polite" });
    this.inner = make("div", {}, this.canvas);
    this.stage = make("div", this.listeners(), this.inner);
    this.node = make("div", { class: "flow" }, this.controls, this.text, this.stage);
  }

  listeners() {
    return {
      class: "stage",
      tabindex: "0",
      role: "application",
      "aria-label":
        "tokens and lines: up and down select a token, left and right the side, Escape shows all lines",
      "aria-describedby": this.text.id,
      keydown: (event) => this.onKey(event),
      pointermove: (event) => this.onMove(event),
      pointerdown: (event) => this.onMove(event),
      pointerleave: () => this.setFocus(null),
      scroll: () => this.drawInNextFrame(),
    };
  }

  get weights() {
    return this.host.maps[this.host.selectedMap()];
  }

  get name() {
    const { part, layer } = this.weights.map;
    return `${part}, layer ${layer}`;
  }

  get heads() {
    return [...Array(this.weights.heads).keys()];
  }

  get shownHeads() {
    return this.heads.filter((head) => !this.host.state.off.includes(head));
  }

  fill() {
    const maps = labelledSelect("Map", this.host.mapOptions(), this.host.selectedMap(), (map) => {
      this.host.set({ map });
      this.focus = null;
      this.fill();
      this.controls.querySelector("select").focus();
    });
    const toggles = make("div", { class: "toggles", role: "group", "aria-label": "heads" });
    toggles.append(...this.heads.map((head) => this.toggle(head)));
    if (this.heads.length > 1) {
      toggles.append(
        this.headsButton("all", "show all heads", []),
        this.headsButton("none", "hide all heads", this.heads),
      );
    }
    this.controls.replaceChildren(maps, toggles);
    this.lines = null;
    this.labels = this.labelWidths();
    this.draw();
  }

  toggle(head) {
    const isOn = this.shownHeads.includes(head);
    const button = make(
      "button",
      { type: "button", class: "toggle", "aria-pressed": String(isOn) },
      `head ${head}`,
    );
    button.style.setProperty("--head", headColour(head));
    button.addEventListener("click", () => {
      const { off } = this.host.state;
      this.hideHeads(isOn ? [...off, head] : off.filter((other) => other !== head));
      this.controls.querySelectorAll(".toggle")[head].focus();
    });
    return button;
  }

  headsButton(text, label, off) {
    const attributes = { type: "button", class: "small", "aria-label": label, title: label };
    return make("button", { ...attributes, click: () => this.hideHeads(off) }, text);
  }

  hideHeads(off) {
    this.host.set({ off: [...off].sort((a, b) => a - b) });
    this.fill();
  }

  // A wheel or a pointer sends more events than the screen has frames.
  drawInNextFrame() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const { weights, shownHeads, stage, focus } = this;
    this.shape = shapeOf(weights, contentWidth(stage), this.labels, stage.scrollTop);
    const { width, viewHeight, top, limits, total } = this.shape;
    this.inner.style.height = `${total}px`;
    const ctx = prepare(this.canvas, width, viewHeight);
    ctx.translate(0, -top);
    this.lines ??= linesOf(weights, shownHeads, focus);
    const lines = visibleLines(this.lines, weights, limits);
    const shares = focus && sharesOf(weights, shownHeads, focus);
    drawLines(ctx, lines, weights, this.shape);
    for (const side of ["queries", "keys"]) drawTokens(ctx, side, weights, this.shape, focus, shares);
    this.canvas.setAttribute(
      "aria-label",
      `attention weights as ${this.lines.length} lines from queries to keys: ${this.name}`,
    );
    this.text.textContent = focus ? this.describe(shares) : HINT;
  }

  labelWidths() {
    const ctx = this.canvas.getContext("2d");
    return [this.weights.queries, this.weights.keys].map((tokens) => labelWidth(ctx, tokens, Infinity));
  }

  describe(shares) {
    const { focus, weights } = this;
    const isQuery = focus.side === "queries";
    const token = quoted(weights[focus.side][focus.index]);
    const strongest = strongestTokens(isQuery ? weights.keys : weights.queries, shares);
    return `${token} ${isQuery ? "attends most to" : "gets most attention from"} ${strongest}`;
  }

  setFocus(focus) {
    if (focus?.side === this.focus?.side && focus?.index === this.focus?.index) return;
    this.focus = focus;
    this.lines = null;
    this.drawInNextFrame();
  }

  onMove(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const { shape } = this;
    const [x, y] = [event.clientX - left, event.clientY - top + shape.top];
    const side = x < shape.width / 2 ? "queries" : "keys";
    const isOnLines = x > shape.left + 12 && x < shape.right - 12;
    const index = indexAt(y, ...this.counts(side), shape.height);
    this.setFocus(isOnLines || index === null ? null : { side, index });
  }

  counts(side) {
    const { rows, columns } = this.weights;
    return side === "queries" ? [rows, columns] : [columns, rows];
  }

  onKey(event) {
    if (event.key === "Escape") this.setFocus(null);
    else if (event.key in MOVES) this.move(event.key);
    else return;
    event.preventDefault();
  }

  move(key) {
    const from = this.focus ?? { side: "queries", index: key === "ArrowDown" ? -1 : 0 };
    const side = { ArrowLeft: "queries", ArrowRight: "keys" }[key] ?? from.side;
    const [count, other] = this.counts(side);
    const index = clamp(from.index + MOVES[key], 0, count - 1);
    const { viewHeight, height } = this.shape;
    const y = yOf(index, count, other, height);
    this.stage.scrollTop = clamp(this.stage.scrollTop, y + height - viewHeight, y - height);
    this.setFocus({ side, index });
  }
}
