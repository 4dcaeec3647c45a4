// The explorer: selects a record, shows its views as tabs, and saves images and data.
import { changeBar } from "./change_bar.js";
import { encodeChanges, isSame, storedVariant, toggle } from "./changes.js";
import { decodeMaps } from "./decode.js";
import { labelledSelect, make, newId } from "./dom.js";
import { flow } from "./flow.js";
import { makeHost } from "./host.js";
import { image } from "./image.js";
import { hasLens, lens } from "./lens.js";
import { NextTokenPanel } from "./next_token_panel.js";
import { isText } from "./next_tokens.js";
import { overview } from "./overview.js";
import { attendsToPatches } from "./patches.js";
import { saveData, saveImage } from "./save.js";
import { DEFAULTS, readAddress, writeAddress } from "./state.js";
import { isStepped, isTranslation } from "./steps.js";
import { shortLabel, summary } from "./summary.js";
import { makeTabs } from "./tabs.js";
import { translation } from "./translation.js";

const VIEWS = [
  { id: "overview", label: () => "Overview", build: overview, fits: ({ maps }) => maps.length > 0 },
  { id: "flow", label: () => "Flow", build: flow, fits: ({ maps }) => maps.length > 0 },
  { id: "image", label: () => "Image", build: image, fits: hasPatches },
  { id: "translation", label: stepLabel, build: translation, fits: ({ record }) => isStepped(record) },
  { id: "layers", label: () => "Layers", build: lens, fits: hasLens },
];

function hasPatches({ record, maps }) {
  return record.image !== null && maps.some((weights) => attendsToPatches(weights, record.image));
}

function stepLabel({ record }) {
  if (isText(record)) return "Token by token";
  return isTranslation(record) ? "Translation" : "Item by item";
}

const PAGE_ADDRESS = { read: readAddress, write: writeAddress };

// Builds the explorer in an element. A live page starts without records and adds them with `show`.
// Its `recompute` requests the record again after the attention was changed. Several explorers on a page each
// have an address of their own; `onSet` is called with what the user selects.
export function explore(
  element,
  records,
  { recompute = null, address = PAGE_ADDRESS, state = address.read(), onSet = () => {} } = {},
) {
  const explorer = new Explorer(element, records, { recompute, address, state, onSet });
  return {
    ready: records.length ? explorer.open(explorer.chosenRecord()) : Promise.resolve(),
    show: (record, options) => explorer.open(record, options),
    set: (change) => explorer.set(change),
    follow: (change) => explorer.follow(change),
    replace: (records) => explorer.replace(records),
    redraw: () => explorer.view?.redraw(),
    get state() {
      return explorer.state;
    },
  };
}

class Explorer {
  constructor(element, records, { recompute, address, state, onSet }) {
    Object.assign(this, { element, records, recompute, address, onSet, state: { ...DEFAULTS, ...state } });
    this.opened = 0; // number of records opened so far
    this.head = make("div", { class: "head" });
    this.bar = make("div");
    this.panel = make("div", { class: "panel", role: "tabpanel", id: newId("panel") });
    element.classList.add("explorer");
    element.replaceChildren();
    this.observePage();
  }

  set(change) {
    this.state = { ...this.state, ...change };
    this.address.write(this.state);
    this.onSet(change);
  }

  // Shows what was selected in another explorer, as far as this one has it.
  async follow(change) {
    this.state = { ...this.state, ...change };
    this.address.write(this.state);
    if ("record" in change || "changes" in change) await this.open(this.chosenRecord());
    else if (this.host) this.build();
  }

  // Shows other records with the same selection.
  async replace(records) {
    this.records = records;
    await this.open(this.chosenRecord());
  }

  chosenRecord() {
    return this.records[this.state.record] ?? this.records[0];
  }

  get live() {
    return this.recompute !== null;
  }

  // Decoding is asynchronous; the result is dropped if another record has been opened meanwhile. A live page
  // cannot change the attention of an example that nobody sent (`canChange`).
  async open(record, { canChange = this.live || Boolean(record.variants?.length) } = {}) {
    this.opened += 1;
    this.record = record;
    const number = this.opened;
    const stored = this.live ? undefined : storedVariant(record, this.state.changes);
    const base = stored ? record : record.base;
    const shown = stored ?? record;
    let maps;
    let baseMaps;
    try {
      [maps, baseMaps] = await Promise.all([decodeMaps(shown), base ? decodeMaps(base) : null]);
    } catch (error) {
      if (number === this.opened) this.showError(error);
      return;
    }
    if (number !== this.opened) return;
    this.host = makeHost(shown, maps, () => this.state, {
      set: (change) => this.set(change),
      change: canChange ? (change) => this.change(change) : null,
      canBlock: canChange && this.live,
      base: base ? { record: base, maps: baseMaps } : null,
      memory: record.given === this.host?.record.given ? this.host.memory : {},
    });
    this.build();
  }

  // A saved page has results for single heads only: another head takes the place of the one before.
  change(change) {
    const changes = toggle(this.state.changes, change);
    if (this.live) this.setChanges(changes);
    else if (storedVariant(this.record, [change])) this.setChanges(changes.filter((one) => isSame(one, change)));
  }

  setChanges(changes) {
    this.set({ changes });
    if (this.live) {
      this.drawChanges({ isComputing: true });
      this.recompute();
    } else this.open(this.record);
  }

  drawChanges({ isComputing = false } = {}) {
    const onChange = (changes) => this.setChanges(changes);
    this.bar.replaceChildren(changeBar(this.host, { onChange, isComputing }));
  }

  showError(error) {
    this.view = null;
    this.head.replaceChildren(...this.recordSelect());
    const text = `This record cannot be shown: ${error.message}`;
    this.element.replaceChildren(this.head, make("p", { class: "error", role: "alert" }, text));
  }

  // An element with the focus that is built anew has it again.
  build() {
    const { keep } = document.activeElement?.dataset ?? {};
    this.buildViews();
    if (keep) this.element.querySelector(`[data-keep="${keep}"]`)?.focus({ preventScroll: true });
  }

  buildViews() {
    const { host } = this;
    this.drawChanges();
    const views = VIEWS.filter(({ fits }) => fits(host));
    this.head.replaceChildren(...this.recordSelect(), ...this.answer(host.record));
    if (!views.length) {
      this.element.replaceChildren(this.head);
      return;
    }
    const chosen = views.find(({ id }) => id === this.state.view) ?? views[0];
    const items = views.map((view) => ({ id: view.id, label: view.label(host) }));
    const tabs = makeTabs(items, chosen.id, this.panel, (view) => {
      this.set({ view });
      this.openView(views.find(({ id }) => id === view));
    });
    this.element.replaceChildren(
      this.head,
      this.bar,
      make("div", { class: "bar-top" }, tabs, this.saveButtons()),
      this.panel,
    );
    this.openView(chosen);
  }

  // The live page has a panel of its own for the next token, which stays while the text grows.
  answer(record) {
    if (!isText(record)) return [summary(record)];
    if (this.live) return [];
    const setTemperature = (temperature) => {
      this.set({ temperature });
      this.view?.redraw();
    };
    const panel = new NextTokenPanel({ temperature: () => this.state.temperature, setTemperature });
    panel.show(record);
    return [panel.node];
  }

  openView(view) {
    this.view = view.build(this.host);
    this.panel.replaceChildren(this.view.node);
    this.imageButton.disabled = this.view.canvas === null;
    this.view.start();
  }

  recordSelect() {
    if (this.records.length < 2) return [];
    const options = this.records.map((record, value) => ({ value, text: shortLabel(record, value) }));
    const chosen = this.records.indexOf(this.record);
    return [labelledSelect("Example", options, chosen, (record) => this.select(record))];
  }

  async select(record) {
    this.set({ record, step: 0, changes: [] });
    await this.open(this.records[record]);
    this.head.querySelector("select")?.focus();
  }

  saveButtons() {
    const { record, maps } = this.host;
    const image = () => saveImage(this.view.canvas(), this.view.title(), record);
    const button = (text, click) => make("button", { type: "button", class: "quiet", click }, text);
    this.imageButton = button("Save image", image);
    return make(
      "div",
      { class: "saves" },
      this.imageButton,
      button("Save data", () => saveData(record, maps)),
    );
  }

  observePage() {
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.round(contentRect.width) === width) return;
      width = Math.round(contentRect.width);
      requestAnimationFrame(() => this.view?.redraw());
    }).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.view?.recolour());
    window.addEventListener("hashchange", () => this.onHashChange());
  }

  // The address was edited, or a link was pasted into the open page.
  onHashChange() {
    const before = encodeChanges(this.state.changes);
    this.state = this.address.read();
    if (!this.record) return;
    if (this.live && encodeChanges(this.state.changes) !== before) {
      this.setChanges(this.state.changes);
      return;
    }
    this.open(this.live ? this.record : this.chosenRecord());
  }
}
