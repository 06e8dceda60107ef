// Tiles of data sets, and the gallery of them on the page of runs.

import { Thumbnails } from "/data_thumbnails.js";
import { make, shorten } from "/link.js";

const LIST_MS = 10000; // from one list to the next
const SHARE = 0.1; // largest share of the time in which the server makes lists
const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function seconds(value) {
  return value < 120 ? `${shorten(value)} s` : `${shorten(value / 60)} minutes`;
}

function size(bytes) {
  const unit = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  return `${shorten(bytes / 1000 ** unit)} ${UNITS[unit]}`;
}

function successOf({ successes, episodes }) {
  return successes === null ? "success unknown" : `${shorten(successes / (episodes || 1), true)} successful`;
}

// Show a data set in a tile: {path, name, task, episodes, steps, seconds, successes, bytes}, or {path, name, problem}.
export function fillTile(tile, set, thumbnails) {
  const facts = set.problem ?? [
    `${set.task}, ${set.episodes} ${set.episodes === 1 ? "episode" : "episodes"}`,
    `${set.steps.toLocaleString("en")} steps, ${seconds(set.seconds)}, ${size(set.bytes)}`,
  ].join("\n");
  tile.append(make("b", set.name), make("span", facts, { class: "quiet" }));
  if (set.problem === undefined) tile.append(make("span", "", { class: "chips" }, make("span", successOf(set), { class: "chip" })));
  if (set.episodes) tile.prepend(thumbnails.make(set.path, 0));
  tile.title = set.path;
}

// The data sets that the server finds, each with a link to its episodes. `found` is called with their list.
export class DataSets {
  constructor(section, ask, found) {
    [this.box, this.note] = [section.querySelector(".tiles"), section.querySelector(".note")];
    Object.assign(this, { ask, found, shown: "", thumbnails: new Thumbnails(ask) });
  }

  // List the data sets now, and repeatedly until the connection is lost.
  async list() {
    this.stopped = false;
    const start = performance.now();
    try {
      const { sets, notes } = await this.ask("list");
      this.note.textContent = notes.join("; ");
      this.show(sets);
      this.found(sets.filter(({ problem }) => problem === undefined));
    } catch (error) {
      if (!this.stopped) this.note.textContent = error.message;
    }
    clearTimeout(this.timer);
    if (this.stopped) return;
    this.timer = setTimeout(() => this.list(), Math.max(LIST_MS, (performance.now() - start) / SHARE));
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  show(sets) {
    const shown = JSON.stringify(sets);
    if (shown === this.shown) return; // a link that is replaced while it is pressed does nothing
    this.shown = shown;
    this.box.replaceChildren(...sets.map((set) => {
      const tile = set.problem === undefined
        ? make("a", "", { class: "tile", href: `/data.html?set=${encodeURIComponent(set.path)}` })
        : make("div", "", { class: "tile" });
      fillTile(tile, set, this.thumbnails);
      return tile;
    }));
  }
}
