// A list of tabs: one is chosen, arrow keys choose its neighbours.
import { make, newId } from "./dom.js";
import { rove } from "./roving.js";

export function makeTabs(items, chosen, panel, onChoose) {
  const list = make("div", { class: "tabs", role: "tablist", "aria-label": "views" });
  const tabs = items.map(({ id, label }) => {
    const attributes = {
      type: "button",
      role: "tab",
      id: newId("tab"),
      "aria-controls": panel.id,
      "data-view": id,
    };
    return make("button", { ...attributes, click: (event) => choose(event.currentTarget) }, label);
  });
  list.append(...tabs);

  function mark(tab) {
    for (const other of tabs) {
      other.setAttribute("aria-selected", String(other === tab));
      other.setAttribute("tabindex", other === tab ? "0" : "-1");
    }
    panel.setAttribute("aria-labelledby", tab.id);
  }

  function choose(tab) {
    mark(tab);
    onChoose(tab.dataset.view);
  }

  rove(list, "[role=tab]", choose);
  mark(tabs.find((tab) => tab.dataset.view === chosen));
  return list;
}
