// One enlarged map with zoom, pan, and a crosshair whose weight is described below the map.
import { cellGrid, contentWidth, paint } from "./canvas.js";
import { ALL, strongest } from "./decode.js";
import { make, newId } from "./dom.js";
import { quoted } from "./format.js";
import { drawMap } from "./heatmap.js";
import { cellAt, clamp, fullView, isFullView, pan, pointAt, reveal, zoomAt } from "./viewport.js";

const ZOOM_FACTOR = 1.5;
const MAX_HEIGHT = 640;
const HINT = "Point at a cell, or use the arrow keys, to read its weight.";
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function nameOf({ map }, head) {
  const headName = head === ALL ? "mean over heads" : `head ${head}`;
  return `${map.part}, layer ${map.layer}, ${headName}`;
}

// The tokens with the largest weights of a row, as text.
export function strongestTokens(tokens, row) {
  const found = strongest(row).map(({ column, weight }) => `${quoted(tokens[column])} ${weight.toFixed(3)}`);
  return found.join(", ") || "no token";
}

export class LargeMap {
  // onCell: receives a cell that was clicked; null if clicks do nothing. memory: keeps the crosshair for the
  // next map of this size, when the view is built anew after a change of the attention.
  constructor({ onEscape, onCell = null, memory = {} }) {
    Object.assign(this, { onCell, memory });
    this.canvas = make("canvas", { role: "img" });
    this.text = make("p", { class: "readout", id: newId("readout"), "aria-live": "polite" });
    this.strongest = make("p", { class: "readout muted", id: newId("strongest") });
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
      button("−", "zoom out", 1 / ZOOM_FACTOR),
      button("+", "zoom in", ZOOM_FACTOR),
    );
    buttons.append(
      make("button", { type: "button", class: "small", click: () => this.reset() }, "reset zoom"),
    );
    this.node = make("section", { class: "large-map", "aria-label": "enlarged map" });
    const header = make("div", { class: "row" }, this.title, buttons);
    this.node.append(header, this.stage, this.text, this.strongest);
  }

  listeners(onEscape) {
    return {
      class: "stage",
      tabindex: "0",
      "data-keep": "stage",
      role: "application",
      "aria-label":
        "attention weights: arrow keys move the crosshair, plus and minus zoom, Escape returns to the maps",
      "aria-describedby": this.strongest.id,
      keydown: (event) => (event.key === "Escape" ? onEscape() : this.onKey(event)),
      wheel: (event) => this.onWheel(event),
      pointerdown: (event) => this.onDown(event),
      pointermove: (event) => this.onMove(event),
      pointerup: (event) => this.onUp(event),
      pointercancel: () => this.onUp(null),
    };
  }

  addActions(button, hint) {
    this.node.append(make("div", { class: "actions" }, button, make("span", { class: "muted note" }, hint)));
  }

  // `base` has the weights without changes of the attention.
  show(weights, head, largest, base = null) {
    const isSameSize = this.weights?.rows === weights.rows && this.weights?.columns === weights.columns;
    Object.assign(this, { weights, head, largest, base, image: null });
    if (!isSameSize) {
      const { rows, columns } = weights;
      const kept = this.memory.rows === rows && this.memory.columns === columns;
      Object.assign(this, { crosshair: kept ? this.memory.crosshair : null, view: fullView(rows, columns) });
    }
    this.title.textContent = nameOf(weights, head);
    this.canvas.setAttribute("aria-label", `attention map: ${nameOf(weights, head)}`);
    this.draw();
  }

  draw() {
    this.image ??= paint(cellGrid(this.weights, this.head, this.largest));
    const width = contentWidth(this.node);
    const { weights, view, crosshair, image } = this;
    this.box = drawMap(this.canvas, { image, weights, view, crosshair, width, maxHeight: MAX_HEIGHT });
    const { rows, columns } = weights;
    this.stage.classList.toggle("zoomed", !isFullView(view, rows, columns));
    this.describe();
  }

  // Called when the colours of the page have changed.
  repaint() {
    this.image = null;
    this.draw();
  }

  describe() {
    const { weights, head, crosshair } = this;
    Object.assign(this.memory, { rows: weights.rows, columns: weights.columns, crosshair });
    const row = weights.row(head, crosshair?.row ?? 0);
    const query = quoted(weights.queries[crosshair?.row ?? 0]);
    const before = (cell) => (this.base ? ` (${this.base.at(head, cell.row, cell.column).toFixed(3)} before)` : "");
    const weightOf = (cell) =>
      `${quoted(weights.keys[cell.column])} with weight ${row[cell.column].toFixed(3)}${before(cell)}`;
    this.text.textContent = crosshair ? `${query} attends to ${weightOf(crosshair)}` : HINT;
    this.strongest.textContent = `${query} attends most to ${strongestTokens(weights.keys, row)}`;
  }

  moveTo(cell) {
    const { rows, columns } = this.weights;
    this.crosshair = { row: clamp(cell.row, 0, rows - 1), column: clamp(cell.column, 0, columns - 1) };
    this.view = reveal(this.view, this.crosshair, rows, columns);
    this.draw();
  }

  zoom(factor, point = null) {
    const { rows, columns } = this.weights;
    const { x, y, width, height } = this.view;
    const crosshair = this.crosshair && { x: this.crosshair.column + 0.5, y: this.crosshair.row + 0.5 };
    const centre = point ?? crosshair ?? { x: x + width / 2, y: y + height / 2 };
    this.view = zoomAt(this.view, factor, centre, rows, columns);
    this.draw();
  }

  reset() {
    this.view = fullView(this.weights.rows, this.weights.columns);
    this.draw();
  }

  onKey(event) {
    const { row, column } = this.crosshair ?? { row: 0, column: 0 };
    const { key } = event;
    if (key in MOVES) {
      this.moveTo(
        this.crosshair ? { row: row + MOVES[key][0], column: column + MOVES[key][1] } : { row, column },
      );
    } else if (key === "+" || key === "=") this.zoom(ZOOM_FACTOR);
    else if (key === "-") this.zoom(1 / ZOOM_FACTOR);
    else if (key === "Home") this.moveTo({ row, column: 0 });
    else if (key === "End") this.moveTo({ row, column: Infinity });
    else return;
    event.preventDefault();
  }

  // Scrolling the page must not zoom a map that happens to be under the pointer.
  onWheel(event) {
    if (!event.ctrlKey && document.activeElement !== this.stage) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, pointAt(this.view, this.box, this.pixel(event)));
  }

  onDown(event) {
    this.drag = { ...this.pixel(event), view: this.view };
    this.moveCrosshair(event);
  }

  onMove(event) {
    const { rows, columns } = this.weights;
    if (!this.drag || isFullView(this.view, rows, columns)) {
      this.moveCrosshair(event);
      return;
    }
    this.stage.setPointerCapture(event.pointerId);
    const { x, y } = this.pixel(event);
    const { view } = this.drag;
    const dx = ((this.drag.x - x) / this.box.width) * view.width;
    const dy = ((this.drag.y - y) / this.box.height) * view.height;
    this.view = pan(view, dx, dy, rows, columns);
    this.draw();
  }

  onUp(event) {
    const { drag } = this;
    this.drag = null;
    if (!event || !drag || !this.onCell || !this.crosshair) return;
    const { x, y } = this.pixel(event);
    const isClick = Math.hypot(x - drag.x, y - drag.y) < 4;
    if (isClick && cellAt(this.view, this.box, { x, y }, this.weights.rows, this.weights.columns)) {
      this.onCell(this.crosshair);
    }
  }

  moveCrosshair(event) {
    const cell = cellAt(this.view, this.box, this.pixel(event), this.weights.rows, this.weights.columns);
    if (!cell || (cell.row === this.crosshair?.row && cell.column === this.crosshair?.column)) return;
    this.crosshair = cell;
    this.draw();
  }

  pixel(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }
}
