// The interface between the page and a view: the record, its decoded maps, and the selections of the user.
import { badgesOf } from "./badges.js";
import { ALL } from "./decode.js";

export function makeHost(record, maps, getState, set) {
  const computed = new Map();
  return {
    record,
    maps,
    set,
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
