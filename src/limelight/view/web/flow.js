// Tokens on both sides and lines between them: which map, which heads, which token.
import { inOrder } from "./bigmap.js";
import { prepare, roomIn } from "./canvas.js";
import { headColour } from "./colours.js";
import { choice, make, newId } from "./dom.js";
import { drawLines, drawTokens, shapeOf } from "./flowdrawing.js";
import { labelRoom } from "./heatmap.js";
import { inSight, indexAt, linesOf, placeOf, sharesOf } from "./lines.js";
import { clamp } from "./window.js";
import { quoted } from "./words.js";

const HINT =
  "Left: who looks. Right: what is looked at. Point at a token to see only its lines, or use the arrow keys.";
const MOVES = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: 0, ArrowRight: 0 };

export function flow(host) {
  const view = new Flow(host);
  return {
    node: view.node,
    start: () => view.fill(),
    redraw: () => view.draw(),
    recolour: () => view.fill(),
    picture: () => view.canvas,
    title: () => view.name,
  };
}

class Flow {
  constructor(host) {
    this.host = host;
    this.focus = null; // {side: "queries" | "keys", index}
    this.lines = null; // found anew when the map, the heads or the focus change
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
        "tokens and lines: up and down move along a side, left and right change it, escape shows all",
      "aria-describedby": this.text.id,
      keydown: (event) => this.onKey(event),
      pointermove: (event) => this.onMove(event),
      pointerdown: (event) => this.onMove(event),
      pointerleave: () => this.point(null),
      scroll: () => this.later(),
    };
  }

  get weights() {
    return this.host.maps[this.host.chosen()];
  }

  get name() {
    const { part, layer } = this.weights.map;
    return `${part}, layer ${layer}`;
  }

  get heads() {
    return [...Array(this.weights.heads).keys()];
  }

  get on() {
    return this.heads.filter((head) => !this.host.state.off.includes(head));
  }

  fill() {
    const maps = choice("Map", this.host.options(), this.host.chosen(), (map) => {
      this.host.set({ map });
      this.focus = null;
      this.fill();
      this.controls.querySelector("select").focus();
    });
    const toggles = make("div", { class: "toggles", role: "group", "aria-label": "heads" });
    toggles.append(...this.heads.map((head) => this.toggle(head)));
    if (this.heads.length > 1) toggles.append(this.several("all", []), this.several("none", this.heads));
    this.controls.replaceChildren(maps, toggles);
    this.lines = null;
    this.labels = this.labelRooms();
    this.draw();
  }

  toggle(head) {
    const isOn = this.on.includes(head);
    const button = make(
      "button",
      { type: "button", class: "toggle", "aria-pressed": String(isOn) },
      `head ${head}`,
    );
    button.style.setProperty("--head", headColour(head));
    button.addEventListener("click", () => {
      const { off } = this.host.state;
      this.switchOff(isOn ? [...off, head] : off.filter((other) => other !== head));
      this.controls.querySelectorAll(".toggle")[head].focus();
    });
    return button;
  }

  several(text, off) {
    const attributes = { type: "button", class: "small", "aria-label": `${text} heads` };
    return make("button", { ...attributes, click: () => this.switchOff(off) }, text);
  }

  switchOff(off) {
    this.host.set({ off: [...off].sort((a, b) => a - b) });
    this.fill();
  }

  // A wheel or a pointer sends more events than a screen has frames.
  later() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const { weights, on, stage, focus } = this;
    this.shape = shapeOf(weights, roomIn(stage), this.labels, stage.scrollTop);
    const { width, seen, top, limits, total } = this.shape;
    this.inner.style.height = `${total}px`;
    const pen = prepare(this.canvas, width, seen);
    pen.translate(0, -top);
    this.lines ??= linesOf(weights, on, focus);
    const lines = inSight(this.lines, weights, limits);
    const shares = focus && sharesOf(weights, on, focus);
    drawLines(pen, lines, weights, this.shape);
    for (const side of ["queries", "keys"]) drawTokens(pen, side, weights, this.shape, focus, shares);
    this.canvas.setAttribute(
      "aria-label",
      `attention as ${this.lines.length} lines from queries to keys: ${this.name}`,
    );
    this.text.textContent = focus ? this.inWords(shares) : HINT;
  }

  labelRooms() {
    const pen = this.canvas.getContext("2d");
    return [this.weights.queries, this.weights.keys].map((tokens) => labelRoom(pen, tokens, Infinity));
  }

  inWords(shares) {
    const { focus, weights } = this;
    const isQuery = focus.side === "queries";
    const token = quoted(weights[focus.side][focus.index]);
    const most = inOrder(isQuery ? weights.keys : weights.queries, shares);
    return `${token} ${isQuery ? "looks most at" : "is looked at most by"} ${most}`;
  }

  point(focus) {
    if (focus?.side === this.focus?.side && focus?.index === this.focus?.index) return;
    this.focus = focus;
    this.lines = null;
    this.later();
  }

  onMove(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const { shape } = this;
    const [x, y] = [event.clientX - left, event.clientY - top + shape.top];
    const side = x < shape.width / 2 ? "queries" : "keys";
    const isOnLines = x > shape.left + 12 && x < shape.right - 12;
    const index = indexAt(y, ...this.counts(side), shape.height);
    this.point(isOnLines || index === null ? null : { side, index });
  }

  counts(side) {
    const { rows, columns } = this.weights;
    return side === "queries" ? [rows, columns] : [columns, rows];
  }

  onKey(event) {
    if (event.key === "Escape") this.point(null);
    else if (event.key in MOVES) this.move(event.key);
    else return;
    event.preventDefault();
  }

  move(key) {
    const from = this.focus ?? { side: "queries", index: key === "ArrowDown" ? -1 : 0 };
    const side = { ArrowLeft: "queries", ArrowRight: "keys" }[key] ?? from.side;
    const [count, other] = this.counts(side);
    const index = clamp(from.index + MOVES[key], 0, count - 1);
    const { seen, height } = this.shape;
    const y = placeOf(index, count, other, height);
    this.stage.scrollTop = clamp(this.stage.scrollTop, y + height - seen, y - height);
    this.point({ side, index });
  }
}
