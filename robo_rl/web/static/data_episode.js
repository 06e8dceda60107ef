// The player of a recorded episode: all cameras at one step, a scrubber, and plots with a cursor.

import { make, shorten } from "/link.js";

const MOST_LOADING = 4; // pictures that are requested at the same time
const AHEAD = 8; // steps that are loaded ahead of the one that is displayed
const MOST_KEPT = 600; // pictures in memory
const COLOURS = 8;

const at = (id) => document.getElementById(id);

export class Player {
  // `ask(request, details)` returns a promise of the server's answer; `moved()` is called when another step is displayed.
  constructor(ask, moved) {
    this.ask = ask;
    this.moved = moved;
    this.visit = 0; // grows with each episode, so that late answers are recognised
    this.pictures = new Map(); // addresses of pictures by "row camera"
    this.images = new Map();
    this.playing = false;
    at("scrubber").addEventListener("input", () => this.show(Number(at("scrubber").value)));
    at("play").addEventListener("click", () => this.play(!this.playing));
    addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // Show an episode of a described data set from its first step.
  open(set, episode) {
    this.close();
    Object.assign(this, { set, episode, steps: set.steps[episode], step: 0, loading: 0, failed: false, signals: null });
    at("scrubber").max = this.steps;
    for (const camera of set.cameras) {
      const [height, width] = set.sizes[camera]; // known before the picture, so that nothing moves when it arrives
      const image = make("img", "", { alt: `Camera ${camera}`, width, height });
      this.images.set(camera, image);
      const name = camera.replace(/^images\//, "");
      at("cameras").append(make("figure", "", {}, image, make("figcaption", name)));
    }
    at("cameras").hidden = !set.cameras.length;
    at("scene").hidden = !set.joints;
    this.show(0);
    this.loadSignals();
    if (set.joints) this.loadScene();
  }

  close() {
    this.visit += 1;
    this.play(false);
    for (const address of this.pictures.values()) URL.revokeObjectURL(address);
    this.pictures.clear();
    this.images.clear();
    at("cameras").replaceChildren();
    at("signals").style.minHeight = `${at("signals").offsetHeight}px`; // what is below stays where it is
    at("signals").replaceChildren();
    at("episode-problem").hidden = true;
    this.poses = null;
  }

  show(step) {
    this.step = Math.min(Math.max(step, 0), this.steps);
    at("scrubber").value = this.step;
    at("position").textContent = `${this.step} / ${this.steps}   ${(this.step / this.set.rate).toFixed(2)} s`;
    this.display();
    this.load();
    this.moveCursors();
    this.moveScene();
    this.moved();
  }

  play(on) {
    if (on === this.playing) return;
    this.playing = on;
    at("play").textContent = on ? "Pause" : "Play";
    if (!on) return;
    if (this.step === this.steps) this.show(0);
    const visit = this.visit;
    let [start, from] = [performance.now(), this.step];
    const tick = (now) => {
      if (!this.playing || visit !== this.visit) return;
      const due = Math.min(from + Math.floor(((now - start) / 1000) * this.set.rate), this.steps);
      if (due > this.step) {
        // If pictures are late, all wait for them; the time that was lost is not made up for.
        if (this.failed || this.has(this.step + 1)) this.show(this.failed || this.has(due) ? due : this.step + 1);
        if (this.step < due) [start, from] = [now, this.step];
      }
      if (this.step === this.steps) this.play(false);
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  // --- pictures ---

  has(row) {
    return this.set.cameras.every((camera) => this.pictures.has(`${row} ${camera}`));
  }

  // Show the pictures of the current step, of all cameras at once.
  display() {
    const complete = this.has(this.step);
    for (const [camera, image] of this.images) {
      image.classList.toggle("old", !complete);
      if (complete) image.src = this.pictures.get(`${this.step} ${camera}`);
    }
  }

  // Request the pictures of the current step and of those after it.
  load() {
    if (this.failed) return;
    for (let row = this.step; row <= Math.min(this.step + AHEAD, this.steps); row += 1) {
      for (const camera of this.set.cameras) {
        if (this.loading >= MOST_LOADING) return;
        if (!this.pictures.has(`${row} ${camera}`) && !this.requested(row, camera)) this.request(row, camera);
      }
    }
  }

  requested(row, camera) {
    return (this.waiting ??= new Set()).has(`${this.visit} ${row} ${camera}`);
  }

  async request(row, camera) {
    const [visit, key] = [this.visit, `${this.visit} ${row} ${camera}`];
    this.waiting.add(key);
    this.loading += 1;
    try {
      const blob = await this.ask("picture", { path: this.set.path, episode: this.episode, row, camera });
      if (visit !== this.visit) return;
      this.pictures.set(`${row} ${camera}`, URL.createObjectURL(blob));
      this.forget();
    } catch (error) {
      if (visit === this.visit) this.fail(error);
    } finally {
      this.waiting.delete(key);
      if (visit === this.visit) {
        this.loading -= 1;
        if (row === this.step) this.display();
        this.load();
      }
    }
  }

  // Free the oldest pictures; those of the current steps are among the newest.
  forget() {
    while (this.pictures.size > MOST_KEPT) {
      const [key, address] = this.pictures.entries().next().value;
      URL.revokeObjectURL(address);
      this.pictures.delete(key);
    }
  }

  fail(error) {
    this.failed = true; // damaged pictures would be requested again and again
    at("episode-problem").textContent = error.message;
    at("episode-problem").hidden = false;
  }

  // --- the 3D scene ---

  async loadScene() {
    const visit = this.visit;
    if (!this.scene) {
      const { Scene } = await import("/scene.js"); // most data sets of pictures alone never need it
      this.scene ??= new Scene("the recorded states", "The 3D scene is being computed");
      at("scene").replaceChildren(this.scene.figure, make("p", "", { class: "quiet", id: "scene-note" }));
    }
    at("scene-note").textContent = "";
    this.scene.figure.classList.add("old"); // until the scene of this episode comes
    let note;
    try {
      const poses = await this.ask("scene", { path: this.set.path, episode: this.episode });
      if (visit !== this.visit) return;
      this.poses = poses;
      this.scene.show({ geometry: poses.geometry });
      note = poses.note;
      this.scene.stage.hidden = false;
    } catch (error) {
      if (visit !== this.visit) return;
      this.scene.stage.hidden = true;
      this.scene.fail("");
      note = `There is no 3D scene: ${error.message}`;
    }
    at("scene-note").textContent = note;
    this.scene.figure.classList.remove("old");
    this.moveScene();
  }

  // Ask again for what the loss of the connection has cost.
  resume() {
    if (this.set?.joints && !this.poses && !at("scene").hidden) this.loadScene();
  }

  moveScene() {
    if (!this.poses) return;
    const { frames, stride } = this.poses;
    this.scene.showAt(frames, Math.min(Math.floor(this.step / stride), frames.length - 1), (1000 * stride) / this.set.rate);
  }

  // --- plots ---

  async loadSignals() {
    const visit = this.visit;
    try {
      const signals = await this.ask("signals", { path: this.set.path, episode: this.episode });
      if (visit !== this.visit) return;
      this.signals = signals;
    } catch (error) {
      if (visit === this.visit) this.fail(error);
      return;
    }
    at("signals").replaceChildren(...this.signals.plots.map((plot) => this.makePlot(plot)));
    if (this.signals.unplotted.length) {
      at("signals").append(make("p", `Too large to plot: ${this.signals.unplotted.join(", ")}`, { class: "quiet" }));
    }
    at("signals").style.minHeight = "";
    this.draw();
    this.moveCursors();
  }

  makePlot(plot) {
    const legend = make("figcaption", "", { class: "legend" });
    plot.names.forEach((name, index) => {
      legend.append(make("span", "", {}, make("i", "", { class: `colour${index % COLOURS}` }), `${name} `, make("b")));
    });
    const box = make("div", "", { class: "plot" }, make("canvas"), make("div", "", { class: "cursor" }));
    box.addEventListener("pointerdown", (event) => {
      box.setPointerCapture(event.pointerId);
      this.seek(event, box);
    });
    box.addEventListener("pointermove", (event) => event.buttons && this.seek(event, box));
    const [low, high] = rangeOf(plot.values);
    const title = make("h2", plot.title, {}, make("small", low < high ? ` ${shorten(low)} to ${shorten(high)}` : ""));
    return make("figure", "", {}, title, box, legend);
  }

  seek(event, box) {
    const { left, width } = box.getBoundingClientRect();
    this.play(false);
    this.show(Math.round(((event.clientX - left) / width) * this.steps));
  }

  draw() {
    if (!this.signals) return;
    const style = getComputedStyle(document.documentElement);
    const colours = Array.from({ length: COLOURS }, (_, index) => style.getPropertyValue(`--colour${index}`));
    document.querySelectorAll("#signals canvas").forEach((canvas, index) => {
      drawLines(canvas, this.signals.plots[index].values, this.signals.stride, this.steps, colours, style.getPropertyValue("--line"));
    });
  }

  moveCursors() {
    if (!this.signals) return;
    const share = this.steps ? this.step / this.steps : 0;
    document.querySelectorAll("#signals figure").forEach((figure, index) => {
      figure.querySelector(".cursor").style.left = `${100 * share}%`;
      const values = this.signals.plots[index].values;
      figure.querySelectorAll("b").forEach((cell, line) => {
        const value = values[line][Math.min(Math.floor(this.step / this.signals.stride), values[line].length - 1)];
        cell.textContent = value === null ? "not finite" : shorten(value);
      });
    });
  }
}

// The least and the greatest of the values that are finite.
function rangeOf(lines) {
  const finite = lines.flat().filter((value) => value !== null);
  return finite.length ? [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))] : [0, 0];
}

// Draw lines over the steps of an episode; values that are not finite leave gaps.
function drawLines(canvas, lines, stride, steps, colours, grid) {
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [width * scale, height * scale];
  let [low, high] = rangeOf(lines);
  if (low === high) [low, high] = [low - 1, high + 1];
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const up = (value) => height - 4 - ((value - low) / (high - low)) * (height - 8);
  pen.strokeStyle = grid;
  if (low <= 0 && high >= 0) {
    pen.beginPath();
    pen.moveTo(0, up(0));
    pen.lineTo(width, up(0));
    pen.stroke();
  }
  pen.lineWidth = 1.6;
  pen.lineJoin = "round";
  lines.forEach((values, line) => {
    pen.strokeStyle = colours[line % colours.length];
    pen.beginPath();
    let gap = true;
    values.forEach((value, index) => {
      if (value !== null) pen[gap ? "moveTo" : "lineTo"](((index * stride) / (steps || 1)) * width, up(value));
      gap = value === null;
    });
    pen.stroke();
  });
}
