// The interface between the page and a view: the record, its decoded maps, and the selections of the user.
import { badgesOf } from "./badges.js";
import { isOff, shareMoved } from "./changes.js";
import { ALL } from "./decode.js";

// `base` has the record and the maps without changes of the attention; null if there are no changes.
// `change` makes a change, or takes it back; null if this page cannot. `canBlock` is whether it can block cells.
export function makeHost(record, maps, getState, { set, change = null, canBlock = false, base = null, memory = {} }) {
  const computed = new Map();
  return {
    record,
    maps,
    set,
    change,
    canBlock,
    base,
    memory, // what a view keeps when it is built anew
    largest: maps.reduce((largest, weights) => Math.max(largest, weights.largest), 0),

    get state() {
      return getState();
    },

    // Computed once per record, because they need every weight.
    badges(map, head) {
      const key = `${map}/${head}`;
      if (!computed.has(key)) computed.set(key, badgesOf(maps[map], head));
      return computed.get(key);
    },

    // Whether a head is switched off.
    isOff(map, head) {
      return isOff(getState().changes, map, head);
    },

    // The share of the weights of a head that moved because of the changes; null without changes.
    moved(map, head) {
      return base && shareMoved(maps[map], base.maps[map], head);
    },

    // The index of the selected map if it exists and fits the view, else a default; -1 if no map fits.
    selectedMap(fits = () => true, fallback = maps.findIndex(fits)) {
      const { map } = getState();
      return maps[map] && fits(maps[map]) ? map : fallback;
    },

    // The maps that fit the view, as options of a select element.
    mapOptions(fits = () => true) {
      return maps
        .map((weights, value) => ({
          weights,
          value,
          text: `${weights.map.part}, layer ${weights.map.layer}`,
        }))
        .filter(({ weights }) => fits(weights));
    },

    // The selected head of a map; ALL if it has no such head.
    selectedHead(map) {
      const { head } = getState();
      if (maps[map].heads === 1) return 0;
      return head < maps[map].heads ? head : ALL;
    },
  };
}
