// The explorer: records, views of them, and what can be saved.
import { decodeMaps } from "./decode.js";
import { choice, make, newId } from "./dom.js";
import { flow } from "./flow.js";
import { makeHost } from "./host.js";
import { image } from "./image.js";
import { overview } from "./overview.js";
import { looksAtPatches } from "./patches.js";
import { saveData, savePicture } from "./save.js";
import { DEFAULTS, readAddress, writeAddress } from "./state.js";
import { isStepped, isTranslation } from "./steps.js";
import { shortly, summary } from "./summary.js";
import { makeTabs } from "./tabs.js";
import { translation } from "./translation.js";

const VIEWS = [
  { id: "overview", label: () => "Overview", build: overview, fits: ({ maps }) => maps.length > 0 },
  { id: "flow", label: () => "Flow", build: flow, fits: ({ maps }) => maps.length > 0 },
  { id: "image", label: () => "Image", build: image, fits: hasPatches },
  { id: "translation", label: stepLabel, build: translation, fits: ({ record }) => isStepped(record) },
];

function hasPatches({ record, maps }) {
  return record.image !== null && maps.some((weights) => looksAtPatches(weights, record.image));
}

function stepLabel({ record }) {
  return isTranslation(record) ? "Translation" : "Item by item";
}

// Builds the explorer in an element. In a live page there are no records at first: `show` brings them.
export function explore(element, records, { live = false, state = readAddress() } = {}) {
  const explorer = new Explorer(element, records, live, state);
  return {
    ready: records.length ? explorer.open(records[explorer.state.record] ?? records[0]) : Promise.resolve(),
    show: (record) => explorer.open(record),
    set: (change) => explorer.set(change),
    get state() {
      return explorer.state;
    },
  };
}

class Explorer {
  constructor(element, records, live, state) {
    Object.assign(this, { element, records, live, state: { ...DEFAULTS, ...state } });
    this.turn = 0;
    this.head = make("div", { class: "head" });
    this.panel = make("div", { class: "panel", role: "tabpanel", id: newId("panel") });
    element.classList.add("explorer");
    element.replaceChildren();
    this.watchPage();
  }

  set(change) {
    this.state = { ...this.state, ...change };
    writeAddress(this.state);
  }

  // What is decoded late, after another record was asked for, is dropped.
  async open(record) {
    this.turn += 1;
    this.record = record;
    const mine = this.turn;
    let maps;
    try {
      maps = await decodeMaps(record);
    } catch (error) {
      if (mine === this.turn) this.refuse(error);
      return;
    }
    if (mine !== this.turn) return;
    this.host = makeHost(
      record,
      maps,
      () => this.state,
      (change) => this.set(change),
    );
    this.build();
  }

  refuse(error) {
    this.view = null;
    this.head.replaceChildren(...this.picker());
    const text = `This record cannot be shown: ${error.message}`;
    this.element.replaceChildren(this.head, make("p", { class: "error", role: "alert" }, text));
  }

  build() {
    const { host } = this;
    const views = VIEWS.filter(({ fits }) => fits(host));
    this.head.replaceChildren(...this.picker(), summary(host.record));
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
      make("div", { class: "bar-top" }, tabs, this.saves()),
      this.panel,
    );
    this.openView(chosen);
  }

  openView(view) {
    this.view = view.build(this.host);
    this.panel.replaceChildren(this.view.node);
    this.view.start();
  }

  picker() {
    if (this.records.length < 2) return [];
    const options = this.records.map((record, value) => ({ value, text: shortly(record, value) }));
    const chosen = this.records.indexOf(this.record);
    return [choice("Example", options, chosen, (record) => this.choose(record))];
  }

  async choose(record) {
    this.set({ record, step: 0 });
    await this.open(this.records[record]);
    this.head.querySelector("select")?.focus();
  }

  saves() {
    const { record, maps } = this.host;
    const picture = () => savePicture(this.view.picture(), this.view.title(), record);
    const button = (text, click) => make("button", { type: "button", class: "quiet", click }, text);
    return make(
      "div",
      { class: "saves" },
      button("Save picture", picture),
      button("Save data", () => saveData(record, maps)),
    );
  }

  watchPage() {
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.round(contentRect.width) === width) return;
      width = Math.round(contentRect.width);
      requestAnimationFrame(() => this.view?.redraw());
    }).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.view?.recolour());
    window.addEventListener("hashchange", () => this.follow());
  }

  // Another address was typed or pasted into the same page.
  follow() {
    this.state = readAddress();
    if (!this.record) return;
    this.open(this.live ? this.record : (this.records[this.state.record] ?? this.records[0]));
  }
}
