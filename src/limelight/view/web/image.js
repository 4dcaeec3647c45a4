// The picture, its patches lit by what a head looks at.
import { nameOf } from "./bigmap.js";
import { prepare, roomIn } from "./canvas.js";
import { ALL, strongest } from "./decode.js";
import { choice, make, newId } from "./dom.js";
import { drawFrame, drawLit } from "./light.js";
import { looksAtPatches, movePatch, patchAt, patchWeights } from "./patches.js";
import { rove } from "./roving.js";

const SMALL = 72;
const LARGEST = 520;

export function image(host) {
  const view = new ImageView(host);
  return {
    node: view.node,
    start: () => view.load(),
    redraw: () => view.draw(),
    recolour: () => view.fill(),
    picture: () => view.canvas,
    title: () => view.title.textContent,
  };
}

class ImageView {
  constructor(host) {
    this.host = host;
    this.grid = host.record.image;
    this.fits = (weights) => looksAtPatches(weights, this.grid);
    this.patch = null; // whose looks are shown; null: those of the class token, or of all
    this.hovered = null; // {map, head} under the pointer
    this.light = "both";
    this.canvas = make("canvas", { role: "img" });
    this.title = make("h3", { class: "map-title" });
    this.text = make("p", { class: "readout", id: newId("readout"), "aria-live": "polite" });
    this.stage = make("div", this.listeners(), this.canvas);
    this.all = make("div", { class: "grids" });
    rove(this.all, ".small-map");
    const big = make(
      "section",
      { class: "lit", "aria-label": "picture" },
      this.title,
      this.stage,
      this.text,
      this.lights(),
    );
    this.node = make("div", { class: "image" }, make("div", { class: "all" }, this.all), big);
  }

  lights() {
    const options = ["both", "picture", "weights"].map((value) => ({ value, text: value }));
    return choice("Show", options, this.light, (light) => {
      this.light = light;
      this.draw();
    });
  }

  listeners() {
    const keys = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
    return {
      class: "stage",
      tabindex: "0",
      role: "application",
      "aria-label": "picture: arrow keys move from patch to patch, escape goes back to the whole",
      "aria-describedby": this.text.id,
      pointermove: (event) => this.onMove(event),
      pointerdown: (event) => this.onMove(event),
      pointerleave: () => this.point(null),
      keydown: (event) => {
        if (event.key === "Escape") this.point(null);
        else if (keys.includes(event.key))
          this.point(this.patch === null ? 0 : movePatch(this.patch, event.key, this.grid));
        else return;
        event.preventDefault();
      },
    };
  }

  async load() {
    this.picture = new Image();
    this.picture.src = `data:image/png;base64,${this.grid.png}`;
    try {
      await this.picture.decode();
    } catch {
      this.text.textContent = "The picture of this record cannot be read.";
      return;
    }
    this.fill();
  }

  fill() {
    const rows = this.host.maps
      .map((weights, map) => ({ weights, map }))
      .filter(({ weights }) => this.fits(weights));
    this.all.replaceChildren(...rows.map(({ weights, map }) => this.layer(weights, map)));
    this.mark();
    this.draw();
  }

  layer(weights, map) {
    const line = make("div", { class: "heads" });
    if (weights.heads > 1) line.append(this.small(weights, map, ALL));
    for (let head = 0; head < weights.heads; head += 1) line.append(this.small(weights, map, head));
    const { part, layer } = weights.map;
    const name = part === "encoder" ? `layer ${layer}` : `${part} ${layer}`;
    return make("div", { class: "layer-row" }, make("span", { class: "layer" }, name), line);
  }

  small(weights, map, head) {
    const canvas = make("canvas", { role: "img", "aria-label": `small picture: ${nameOf(weights, head)}` });
    const { width, height } = this.size(SMALL);
    const lit = patchWeights(weights, head, null, this.grid);
    drawLit(prepare(canvas, width, height), this.picture, lit, this.grid, { width, height });
    canvas.removeAttribute("style"); // it is as wide as its button
    const leave = () => this.hover(null);
    const enter = () => this.hover({ map, head });
    const attributes = {
      type: "button",
      class: "small-map",
      "data-key": `${map}/${head}`,
      title: nameOf(weights, head),
    };
    const label = make("span", { class: "caption" }, head === ALL ? "mean" : `head ${head}`);
    attributes["aria-label"] = `${nameOf(weights, head)}; choose`;
    Object.assign(attributes, { pointerenter: enter, pointerleave: leave, focus: enter, blur: leave });
    attributes.click = () => {
      this.host.set({ map, head });
      this.mark();
      this.draw();
    };
    return make("button", attributes, canvas, label);
  }

  // The map that is pointed at, else the chosen one; at first the last layer, where most has come together.
  get shown() {
    if (this.hovered) return this.hovered;
    const fitting = this.host.maps.findLastIndex(
      (weights) => this.fits(weights) && weights.map.part !== "pooling",
    );
    const map = this.host.chosen(this.fits, fitting);
    return { map, head: this.host.head(map) };
  }

  mark() {
    const { map, head } = this.shown;
    for (const item of this.all.querySelectorAll(".small-map")) {
      const isChosen = item.dataset.key === `${map}/${head}`;
      item.setAttribute("aria-pressed", String(isChosen));
      item.setAttribute("tabindex", isChosen ? "0" : "-1");
    }
  }

  size(most) {
    const { naturalWidth, naturalHeight } = this.picture;
    const factor = most / Math.max(naturalWidth, naturalHeight);
    return { width: naturalWidth * factor, height: naturalHeight * factor };
  }

  draw() {
    if (!this.picture?.naturalWidth) return;
    const { map, head } = this.shown;
    const weights = this.host.maps[map];
    const query = this.patch === null ? null : this.patch + this.grid.first;
    const lit = patchWeights(weights, head, query, this.grid);
    const size = this.size(Math.min(LARGEST, roomIn(this.stage.parentElement)));
    const pen = prepare(this.canvas, size.width, size.height);
    drawLit(pen, this.picture, lit, this.grid, { ...size, light: this.light });
    if (this.patch !== null && weights.rows > 1) drawFrame(pen, this.patch, this.grid, size);
    this.title.textContent = nameOf(weights, head);
    this.describe(lit, weights);
  }

  describe(lit, weights) {
    const { columns, first } = this.grid;
    const name = (patch) => `row ${Math.floor(patch / columns)}, column ${patch % columns}`;
    const isOne = this.patch !== null && weights.rows > 1;
    const all = first > 0 || weights.rows === 1 ? "The answer looks" : "On the mean, patches look";
    const most = strongest(lit).map(({ column, weight }) => `${name(column)} (${weight.toFixed(3)})`);
    const who = isOne ? `The patch at ${name(this.patch)} looks` : all;
    this.text.textContent = `${who} most at ${most.join("; ") || "nothing"}`;
    this.canvas.setAttribute("aria-label", `picture lit by ${nameOf(weights, this.shown.head)}`);
  }

  point(patch) {
    if (patch === this.patch) return;
    this.patch = patch;
    this.draw();
  }

  hover(which) {
    this.hovered = which;
    this.draw();
  }

  onMove(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    this.point(patchAt((event.clientX - left) / width, (event.clientY - top) / height, this.grid));
  }
}
