// The image view: the input image with the attention weights of its patches.
import { handleArrowKeys } from "./arrow_keys.js";
import { contentWidth, prepare } from "./canvas.js";
import { ALL, strongest } from "./decode.js";
import { labelledSelect, make, newId } from "./dom.js";
import { nameOf } from "./large_map.js";
import { drawPatches, drawPatchFrame } from "./patch_overlay.js";
import { attendsToPatches, movePatch, patchAt, patchWeights } from "./patches.js";
import { addScrollCue } from "./scroll_cue.js";

const THUMBNAIL = 72; // pixels
const MAX_SIZE = 520;
const MODES = [
  { value: "both", text: "image and weights" },
  { value: "image", text: "image" },
  { value: "weights", text: "weights" },
];

export function image(host) {
  const view = new ImageView(host);
  return {
    node: view.node,
    start: () => view.load(),
    redraw: () => view.draw(),
    recolour: () => view.fill(),
    canvas: () => view.canvas,
    title: () => view.title.textContent,
  };
}

class ImageView {
  constructor(host) {
    this.host = host;
    this.grid = host.record.image;
    this.fits = (weights) => attendsToPatches(weights, this.grid);
    this.patch = null; // the patch whose weights are shown; null: class token or mean over all patches
    this.hovered = null; // { map, head } of the thumbnail under the pointer
    this.mode = MODES[0].value;
    this.canvas = make("canvas", { role: "img" });
    this.title = make("h3", { class: "map-title" });
    this.text = make("p", { class: "readout", id: newId("readout"), "aria-live": "polite" });
    this.stage = make("div", this.listeners(), this.canvas);
    this.all = make("div", { class: "grids" });
    handleArrowKeys(this.all, ".small-map");
    const large = make(
      "section",
      { class: "patch-view", "aria-label": "image" },
      this.title,
      this.stage,
      this.text,
      this.modeSelect(),
    );
    this.node = make("div", { class: "image" }, make("div", { class: "all" }, this.all), large);
  }

  modeSelect() {
    return labelledSelect("Show", MODES, this.mode, (mode) => {
      this.mode = mode;
      this.draw();
    });
  }

  listeners() {
    const keys = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
    return {
      class: "stage",
      tabindex: "0",
      role: "application",
      "aria-label": "image: arrow keys select a patch, Escape clears the selection",
      "aria-describedby": this.text.id,
      pointermove: (event) => this.onMove(event),
      pointerdown: (event) => this.onMove(event),
      pointerleave: () => this.selectPatch(null),
      keydown: (event) => {
        if (event.key === "Escape") this.selectPatch(null);
        else if (keys.includes(event.key))
          this.selectPatch(this.patch === null ? 0 : movePatch(this.patch, event.key, this.grid));
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
      this.text.textContent = "The image of this record cannot be decoded.";
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
    const line = addScrollCue(make("div", { class: "heads" }));
    if (weights.heads > 1) line.append(this.thumbnail(weights, map, ALL));
    for (let head = 0; head < weights.heads; head += 1) line.append(this.thumbnail(weights, map, head));
    const { part, layer } = weights.map;
    const name = part === "encoder" ? `layer ${layer}` : `${part} ${layer}`;
    return make("div", { class: "layer-row" }, make("span", { class: "layer" }, name), line);
  }

  thumbnail(weights, map, head) {
    const canvas = make("canvas", { role: "img", "aria-label": `thumbnail: ${nameOf(weights, head)}` });
    const { width, height } = this.size(THUMBNAIL);
    const values = patchWeights(weights, head, null, this.grid);
    drawPatches(prepare(canvas, width, height), this.picture, values, this.grid, { width, height });
    canvas.removeAttribute("style"); // the style sheet makes it as wide as its button
    const leave = () => this.hover(null);
    const enter = () => this.hover({ map, head });
    const attributes = {
      type: "button",
      class: "small-map",
      "data-key": `${map}/${head}`,
      title: nameOf(weights, head),
    };
    const label = make("span", { class: "caption" }, head === ALL ? "mean" : `head ${head}`);
    attributes["aria-label"] = `${nameOf(weights, head)}; select`;
    Object.assign(attributes, { pointerenter: enter, pointerleave: leave, focus: enter, blur: leave });
    attributes.click = () => {
      this.host.set({ map, head });
      this.mark();
      this.draw();
    };
    return make("button", attributes, canvas, label);
  }

  // The map under the pointer, else the selected one; by default the last layer.
  get shown() {
    if (this.hovered) return this.hovered;
    const fallback = this.host.maps.findLastIndex(
      (weights) => this.fits(weights) && weights.map.part !== "pooling",
    );
    const map = this.host.selectedMap(this.fits, fallback);
    return { map, head: this.host.selectedHead(map) };
  }

  mark() {
    const { map, head } = this.shown;
    for (const item of this.all.querySelectorAll(".small-map")) {
      const isSelected = item.dataset.key === `${map}/${head}`;
      item.setAttribute("aria-pressed", String(isSelected));
      item.setAttribute("tabindex", isSelected ? "0" : "-1");
    }
  }

  size(maxSize) {
    const { naturalWidth, naturalHeight } = this.picture;
    const factor = maxSize / Math.max(naturalWidth, naturalHeight);
    return { width: naturalWidth * factor, height: naturalHeight * factor };
  }

  draw() {
    if (!this.picture?.naturalWidth) return;
    const { map, head } = this.shown;
    const weights = this.host.maps[map];
    const query = this.patch === null ? null : this.patch + this.grid.first;
    const values = patchWeights(weights, head, query, this.grid);
    const size = this.size(Math.min(MAX_SIZE, contentWidth(this.stage.parentElement)));
    const ctx = prepare(this.canvas, size.width, size.height);
    drawPatches(ctx, this.picture, values, this.grid, { ...size, mode: this.mode });
    if (this.patch !== null && weights.rows > 1) drawPatchFrame(ctx, this.patch, this.grid, size);
    this.title.textContent = nameOf(weights, head);
    this.describe(values, weights);
  }

  describe(values, weights) {
    const { columns } = this.grid;
    const name = (patch) => `row ${Math.floor(patch / columns)}, column ${patch % columns}`;
    const patches = strongest(values).map(({ column, weight }) => `${name(column)} (${weight.toFixed(3)})`);
    const isPatch = this.patch !== null && weights.rows > 1;
    const query = isPatch ? `The patch at ${name(this.patch)} attends` : this.defaultQuery(weights);
    this.text.textContent = `${query} most to ${patches.join("; ") || "no patch"}`;
    const label = `image with attention weights: ${nameOf(weights, this.shown.head)}`;
    this.canvas.setAttribute("aria-label", label);
  }

  // The queries whose weights are shown while no patch is selected.
  defaultQuery(weights) {
    if (weights.map.part === "pooling") return "The pooling query attends";
    return this.grid.first > 0 ? "The class token attends" : "On average, the patches attend";
  }

  selectPatch(patch) {
    if (patch === this.patch) return;
    this.patch = patch;
    this.draw();
  }

  hover(thumbnail) {
    this.hovered = thumbnail;
    this.draw();
  }

  onMove(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    this.selectPatch(patchAt((event.clientX - left) / width, (event.clientY - top) / height, this.grid));
  }
}
