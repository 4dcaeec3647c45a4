// One record and what the reader chose of it: all that a view sees of the page around it.
import { badgesOf } from "./badges.js";
import { ALL } from "./decode.js";

export function makeHost(record, maps, getState, set) {
  const known = new Map();
  return {
    record,
    maps,
    set,
    largest: maps.reduce((largest, weights) => Math.max(largest, weights.largest), 0),

    get state() {
      return getState();
    },

    // Once a record: they need every weight.
    badges(map, head) {
      const key = `${map}/${head}`;
      if (!known.has(key)) known.set(key, badgesOf(maps[map], head));
      return known.get(key);
    },

    // The map of the address, if there is such a one and it fits the view; -1 where none fits.
    chosen(fits = () => true, otherwise = maps.findIndex(fits)) {
      const { map } = getState();
      return maps[map] && fits(maps[map]) ? map : otherwise;
    },

    // Maps to choose from.
    options(fits = () => true) {
      return maps
        .map((weights, value) => ({
          weights,
          value,
          text: `${weights.map.part}, layer ${weights.map.layer}`,
        }))
        .filter(({ weights }) => fits(weights));
    },

    head(map) {
      const { head } = getState();
      if (maps[map].heads === 1) return 0;
      return head < maps[map].heads ? head : ALL;
    },
  };
}
