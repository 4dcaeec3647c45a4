// One map, enlarged: zoom, pan, and a crosshair that says in words what it points at.
import { cells, paint, roomIn } from "./canvas.js";
import { ALL, strongest } from "./decode.js";
import { make, newId } from "./dom.js";
import { drawMap } from "./heatmap.js";
import { cellAt, clamp, isWhole, pan, placeAt, reveal, whole, zoomAt } from "./window.js";
import { quoted } from "./words.js";

const FACTOR = 1.5; // of one step of the zoom
const TALLEST = 640;
const HINT = "Point at a cell, or move with the arrow keys.";
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function nameOf({ map }, head) {
  const which = head === ALL ? "mean of heads" : `head ${head}`;
  return `${map.part}, layer ${map.layer}, ${which}`;
}

export function inOrder(tokens, row) {
  const found = strongest(row).map(({ column, weight }) => `${quoted(tokens[column])} ${weight.toFixed(3)}`);
  return found.join(", ") || "nothing";
}

export class BigMap {
  constructor(onEscape) {
    this.canvas = make("canvas", { role: "img" });
    this.text = make("p", { class: "readout", id: newId("readout"), "aria-live": "polite" });
    this.more = make("p", { class: "readout muted", id: newId("strongest") });
    this.title = make("h3", { class: "map-title" });
    this.stage = make("div", this.listeners(onEscape), this.canvas);
    const button = (text, label, factor) =>
      make(
        "button",
        { type: "button", class: "small", "aria-label": label, title: label, click: () => this.zoom(factor) },
        text,
      );
    const buttons = make(
      "div",
      { class: "zoom" },
      button("−", "zoom out", 1 / FACTOR),
      button("+", "zoom in", FACTOR),
    );
    buttons.append(
      make("button", { type: "button", class: "small", click: () => this.reset() }, "whole map"),
    );
    this.node = make("section", { class: "bigmap", "aria-label": "enlarged map" });
    this.node.append(make("div", { class: "row" }, this.title, buttons), this.stage, this.text, this.more);
  }

  listeners(onEscape) {
    return {
      class: "stage",
      tabindex: "0",
      role: "application",
      "aria-label": "map of weights: arrow keys move, plus and minus zoom, escape goes back",
      "aria-describedby": this.more.id,
      keydown: (event) => (event.key === "Escape" ? onEscape() : this.onKey(event)),
      wheel: (event) => this.onWheel(event),
      pointerdown: (event) => this.onDown(event),
      pointermove: (event) => this.onMove(event),
      pointerup: () => this.onUp(),
      pointercancel: () => this.onUp(),
    };
  }

  show(weights, head, largest) {
    const isSameSize = this.weights?.rows === weights.rows && this.weights?.columns === weights.columns;
    Object.assign(this, { weights, head, largest, image: null });
    if (!isSameSize) Object.assign(this, { cross: null, view: whole(weights.rows, weights.columns) });
    this.title.textContent = nameOf(weights, head);
    this.canvas.setAttribute("aria-label", `attention map: ${nameOf(weights, head)}`);
    this.draw();
  }

  draw() {
    this.image ??= paint(cells(this.weights, this.head, this.largest));
    const width = roomIn(this.node);
    const { weights, view, cross, image } = this;
    this.box = drawMap(this.canvas, { image, weights, view, cross, width, tallest: TALLEST });
    const { rows, columns } = weights;
    this.stage.classList.toggle("zoomed", !isWhole(view, rows, columns));
    this.describe();
  }

  // After a change of the page's colours.
  repaint() {
    this.image = null;
    this.draw();
  }

  describe() {
    const { weights, head, cross } = this;
    const row = weights.row(head, cross?.row ?? 0);
    const query = quoted(weights.queries[cross?.row ?? 0]);
    this.text.textContent = cross
      ? `${query} looks at ${quoted(weights.keys[cross.column])} with weight ${row[cross.column].toFixed(3)}`
      : HINT;
    this.more.textContent = `${query} looks most at ${inOrder(weights.keys, row)}`;
  }

  moveTo(cell) {
    const { rows, columns } = this.weights;
    this.cross = { row: clamp(cell.row, 0, rows - 1), column: clamp(cell.column, 0, columns - 1) };
    this.view = reveal(this.view, this.cross, rows, columns);
    this.draw();
  }

  zoom(factor, point = null) {
    const { rows, columns } = this.weights;
    const { x, y, across, down } = this.view;
    const cross = this.cross && { x: this.cross.column + 0.5, y: this.cross.row + 0.5 };
    const middle = point ?? cross ?? { x: x + across / 2, y: y + down / 2 };
    this.view = zoomAt(this.view, factor, middle, rows, columns);
    this.draw();
  }

  reset() {
    this.view = whole(this.weights.rows, this.weights.columns);
    this.draw();
  }

  onKey(event) {
    const { row, column } = this.cross ?? { row: 0, column: 0 };
    const { key } = event;
    if (key in MOVES) {
      this.moveTo(
        this.cross ? { row: row + MOVES[key][0], column: column + MOVES[key][1] } : { row, column },
      );
    } else if (key === "+" || key === "=") this.zoom(FACTOR);
    else if (key === "-") this.zoom(1 / FACTOR);
    else if (key === "Home") this.moveTo({ row, column: 0 });
    else if (key === "End") this.moveTo({ row, column: Infinity });
    else return;
    event.preventDefault();
  }

  // A wheel that only passes over the map on its way down the page must not be caught.
  onWheel(event) {
    if (!event.ctrlKey && document.activeElement !== this.stage) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, placeAt(this.view, this.box, this.pixel(event)));
  }

  onDown(event) {
    this.dragged = { ...this.pixel(event), view: this.view };
    this.follow(event);
  }

  onMove(event) {
    const { rows, columns } = this.weights;
    if (!this.dragged || isWhole(this.view, rows, columns)) {
      this.follow(event);
      return;
    }
    this.stage.setPointerCapture(event.pointerId);
    const { x, y } = this.pixel(event);
    const { view } = this.dragged;
    const right = ((this.dragged.x - x) / this.box.width) * view.across;
    const down = ((this.dragged.y - y) / this.box.height) * view.down;
    this.view = pan(view, right, down, rows, columns);
    this.draw();
  }

  onUp() {
    this.dragged = null;
  }

  follow(event) {
    const cell = cellAt(this.view, this.box, this.pixel(event), this.weights.rows, this.weights.columns);
    if (!cell || (cell.row === this.cross?.row && cell.column === this.cross?.column)) return;
    this.cross = cell;
    this.draw();
  }

  pixel(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }
}
