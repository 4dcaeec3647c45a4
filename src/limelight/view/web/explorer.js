// The explorer: selects a record, shows its views as tabs, and saves images and data.
import { decodeMaps } from "./decode.js";
import { labelledSelect, make, newId } from "./dom.js";
import { flow } from "./flow.js";
import { makeHost } from "./host.js";
import { image } from "./image.js";
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
];

function hasPatches({ record, maps }) {
  return record.image !== null && maps.some((weights) => attendsToPatches(weights, record.image));
}

function stepLabel({ record }) {
  if (isText(record)) return "Token by token";
  return isTranslation(record) ? "Translation" : "Item by item";
}

// Builds the explorer in an element. A live page starts without records and adds them with `show`.
export function explore(element, records, { live = false, state = readAddress() } = {}) {
  const explorer = new Explorer(element, records, live, state);
  return {
    ready: records.length ? explorer.open(records[explorer.state.record] ?? records[0]) : Promise.resolve(),
    show: (record) => explorer.open(record),
    set: (change) => explorer.set(change),
    redraw: () => explorer.view?.redraw(),
    get state() {
      return explorer.state;
    },
  };
}

class Explorer {
  constructor(element, records, live, state) {
    Object.assign(this, { element, records, live, state: { ...DEFAULTS, ...state } });
    this.opened = 0; // number of records opened so far
    this.head = make("div", { class: "head" });
    this.panel = make("div", { class: "panel", role: "tabpanel", id: newId("panel") });
    element.classList.add("explorer");
    element.replaceChildren();
    this.observePage();
  }

  set(change) {
    this.state = { ...this.state, ...change };
    writeAddress(this.state);
  }

  // Decoding is asynchronous; the result is dropped if another record has been opened meanwhile.
  async open(record) {
    this.opened += 1;
    this.record = record;
    const number = this.opened;
    let maps;
    try {
      maps = await decodeMaps(record);
    } catch (error) {
      if (number === this.opened) this.showError(error);
      return;
    }
    if (number !== this.opened) return;
    this.host = makeHost(
      record,
      maps,
      () => this.state,
      (change) => this.set(change),
    );
    this.build();
  }

  showError(error) {
    this.view = null;
    this.head.replaceChildren(...this.recordSelect());
    const text = `This record cannot be shown: ${error.message}`;
    this.element.replaceChildren(this.head, make("p", { class: "error", role: "alert" }, text));
  }

  build() {
    const { host } = this;
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
    this.view.start();
  }

  recordSelect() {
    if (this.records.length < 2) return [];
    const options = this.records.map((record, value) => ({ value, text: shortLabel(record, value) }));
    const chosen = this.records.indexOf(this.record);
    return [labelledSelect("Example", options, chosen, (record) => this.select(record))];
  }

  async select(record) {
    this.set({ record, step: 0 });
    await this.open(this.records[record]);
    this.head.querySelector("select")?.focus();
  }

  saveButtons() {
    const { record, maps } = this.host;
    const image = () => saveImage(this.view.canvas(), this.view.title(), record);
    const button = (text, click) => make("button", { type: "button", class: "quiet", click }, text);
    return make(
      "div",
      { class: "saves" },
      button("Save image", image),
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
    this.state = readAddress();
    if (!this.record) return;
    this.open(this.live ? this.record : (this.records[this.state.record] ?? this.records[0]));
  }
}
