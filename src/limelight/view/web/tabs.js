// A list of tabs with keyboard navigation; items: [{ id, label }].
import { handleArrowKeys } from "./arrow_keys.js";
import { make, newId } from "./dom.js";

export function makeTabs(items, selected, panel, onSelect) {
  const list = make("div", { class: "tabs", role: "tablist", "aria-label": "views" });
  const tabs = items.map(({ id, label }) => {
    const attributes = {
      type: "button",
      role: "tab",
      id: newId("tab"),
      "aria-controls": panel.id,
      "data-view": id,
    };
    return make("button", { ...attributes, click: (event) => select(event.currentTarget) }, label);
  });
  list.append(...tabs);

  function mark(tab) {
    for (const other of tabs) {
      other.setAttribute("aria-selected", String(other === tab));
      other.setAttribute("tabindex", other === tab ? "0" : "-1");
    }
    panel.setAttribute("aria-labelledby", tab.id);
  }

  function select(tab) {
    mark(tab);
    onSelect(tab.dataset.view);
  }

  handleArrowKeys(list, "[role=tab]", select);
  mark(tabs.find((tab) => tab.dataset.view === selected));
  return list;
}
