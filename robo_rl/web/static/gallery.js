// The gallery of runs: a tile for each, with a picture, a curve, and whether it is compared.

import { make, shorten, showPicture } from "/link.js";

const ENDED = { completed: "good", reached: "good", diverged: "bad", "cannot be shown": "bad" }; // others are yellow
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [100, 30];

// Green: training, or completed; red: stopped, diverged or unreadable; yellow: anything else, such as a pause.
export function colour(state, goingOn, paused) {
  if (!goingOn) return ENDED[state] ?? "waiting";
  if (state.includes("stopped")) return "bad";
  return state === "training" && !paused ? "good" : "waiting";
}

// Tiles in an element. `acts` are called with what a person wants: choose(path), compare(paths).
export class Gallery {
  constructor(box, acts) {
    this.box = box;
    this.acts = acts;
    this.tiles = new Map(); // by path: {box, button, image, line, name, title, state, value, problem, compare}
  }

  // Show runs: {path, name, title, state, paused, going_on, curve, spark, share}.
  show(runs, chosen) {
    for (const path of this.tiles.keys()) if (!runs.some((run) => run.path === path)) this.tiles.delete(path);
    const boxes = runs.map((run) => this.update(run));
    // Only if they are others: a button that is replaced while it is pressed does nothing.
    const same = boxes.length === this.box.children.length && boxes.every((box, index) => box === this.box.children[index]);
    if (!same) this.box.replaceChildren(...boxes);
    this.mark(chosen);
  }

  update({ path, name, title, state, paused, going_on, curve, spark, share }) {
    const tile = this.tiles.get(path) ?? this.add(path);
    tile.name.textContent = name;
    tile.title.textContent = title;
    tile.state.textContent = state;
    tile.state.className = `chip ${colour(state, going_on, paused)}`;
    tile.value.textContent = spark.length ? shorten(spark.at(-1), share) : "";
    tile.value.title = curve;
    tile.line.setAttribute("points", points(spark, share));
    tile.line.parentElement.setAttribute("aria-label", curve);
    return tile.box;
  }

  add(path) {
    const parts = ["name", "title", "state", "value", "problem"].map((part) => [part, make(part === "name" ? "b" : "span")]);
    const tile = Object.fromEntries(parts);
    tile.title.className = tile.problem.className = "quiet";
    tile.image = make("img", "", { alt: "", hidden: "" });
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 -2 ${WIDTH} ${HEIGHT + 4}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    tile.line = document.createElementNS(SVG, "polyline");
    svg.append(tile.line);
    const chips = make("span", "", { class: "chips" }, tile.state, tile.value);
    const drawing = make("span", "", { class: "spark" });
    drawing.append(svg);
    tile.button = make("button", "", { class: "tile" }, tile.image, drawing, tile.name, tile.title, chips, tile.problem);
    tile.button.addEventListener("click", () => this.acts.choose(path));
    tile.compare = make("button", "Compare", { "aria-pressed": "false" });
    tile.compare.addEventListener("click", () => {
      tile.compare.setAttribute("aria-pressed", String(!isPressed(tile.compare)));
      this.acts.compare(this.compared());
    });
    tile.box = make("div", "", { class: "run" }, tile.button, tile.compare);
    this.tiles.set(path, tile);
    return tile;
  }

  // Show the picture of a run's video.
  picture(path, blob) {
    const tile = this.tiles.get(path);
    if (!tile) return;
    showPicture(tile.image, blob);
    tile.image.hidden = false;
    tile.problem.textContent = "";
  }

  // Say why the picture of a run is not shown.
  lack(path, problem) {
    const tile = this.tiles.get(path);
    if (!tile) return;
    tile.image.hidden = true;
    tile.problem.textContent = `Picture not shown: ${problem}`;
  }

  // Mark the run that the page shows.
  mark(chosen) {
    for (const [path, { button }] of this.tiles) button.setAttribute("aria-pressed", String(path === chosen));
  }

  compared() {
    return [...this.tiles].filter(([, { compare }]) => isPressed(compare)).map(([path]) => path);
  }
}

function isPressed(button) {
  return button.getAttribute("aria-pressed") === "true";
}

// The points of a curve from the left to the right; a share has the whole height.
function points(values, share) {
  const [low, high] = share ? [0, 1] : [Math.min(...values), Math.max(...values)];
  const across = (index) => (WIDTH * index) / Math.max(values.length - 1, 1);
  const up = (value) => HEIGHT * (1 - (value - low) / (high - low || 1));
  const drawn = values.length === 1 ? [values[0], values[0]] : values;
  return drawn.map((value, index) => `${across(index).toFixed(1)},${up(value).toFixed(1)}`).join(" ");
}
