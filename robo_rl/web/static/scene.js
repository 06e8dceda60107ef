// The three-dimensional scene of a robot or simulator: its shapes, the trail of its end effector, force and filters.

import { make } from "/link.js";
import { Drawing } from "/scene_drawing.js";

const TRAIL_MS = 4000;
const CHANGED_MS = 1500; // for which the filters are named after they changed an action
const JUMP = 0.25; // between two frames, across which no trail is drawn: another episode has begun [m]
const LEAST_FORCE = 0.5; // that is drawn [N]
const METRES_PER_NEWTON = 0.01;
const LONGEST_ARROW = 0.3; // [m]
const TURN = 0.008; // [rad] per pixel
const KEYS = {
  ArrowLeft: (view) => view.orbit(12, 0), ArrowRight: (view) => view.orbit(-12, 0),
  ArrowUp: (view) => view.orbit(0, 12), ArrowDown: (view) => view.orbit(0, -12),
  PageUp: (view) => view.zoom(0.9), PageDown: (view) => view.zoom(1.1), Home: (view) => view.reset(),
};

export class Scene {
  constructor(robot, waiting = "No 3D scene has come yet") {
    this.canvas = make("canvas", "", { "aria-hidden": "true" });
    this.paper = make("canvas", "", {
      tabindex: "0", role: "img", "aria-label": `3D scene of ${robot}: arrow keys turn, Page Up and Down zoom, Home resets`,
    });
    this.age = make("span");
    this.force = make("span", "", { class: "force" });
    this.filters = make("span", "", { class: "filters chip bad" });
    this.problem = make("p", waiting, { class: "quiet" });
    const stage = make("div", "", { class: "stage" }, this.canvas, this.paper);
    this.stage = stage;
    this.figure = make("figure", "", { class: "scene" }, stage, this.problem,
      make("figcaption", "", {}, make("span", `${robot} `), this.filters, this.age, this.force));
    this.filters.hidden = true;
    this.view = new View();
    this.trail = []; // {point, changed, time}
    this.fingers = new Map(); // positions of the pointers that touch the scene, by id
    this.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.canvas.addEventListener("webglcontextrestored", () => this.open());
    this.listen();
    this.open();
    this.watch = new ResizeObserver(() => this.redraw());
    this.watch.observe(stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  open() {
    try {
      this.drawing = new Drawing(this.canvas);
      if (this.geometry) this.drawing.load(this.geometry);
      this.redraw();
    } catch (error) {
      this.fail(`There is no 3D scene: ${error.message}. All else is still shown.`);
    }
  }

  fail(text) {
    this.problem.textContent = text;
    this.stage.hidden = text !== "" && !this.drawing;
  }

  // Show a part of the scene: {geometry}, {frame} or {problem}.
  show({ geometry, frame, problem }) {
    if (this.drawing || problem) this.fail(problem ?? "");
    if (geometry && geometry.version !== this.geometry?.version) {
      this.geometry = geometry;
      this.drawing?.load(geometry);
      this.view.look(geometry.camera);
    }
    if (frame) this.follow(frame);
    this.redraw();
  }

  follow(frame) {
    const now = performance.now();
    Object.assign(this, { frame, seen: now });
    if (frame.changed.length) Object.assign(this, { changed: frame.changed, changedAt: now });
    if (frame.tip) this.trail.push({ point: frame.tip, changed: frame.changed.length > 0, time: now });
    this.trail = this.trail.filter(({ time }) => now - time < TRAIL_MS);
    const isChanged = this.changed && now - this.changedAt < CHANGED_MS;
    this.filters.hidden = !isChanged;
    if (isChanged) this.filters.textContent = `changed by ${this.changed.join(", ")}`;
    const newtons = frame.force ? Math.hypot(...frame.force) : null;
    this.force.textContent = newtons === null ? "" : `force ${newtons.toFixed(1)} N`;
  }

  // Show one of the frames of a recording; the trail is of the steps before it, `milliseconds` apart.
  showAt(frames, index, milliseconds) {
    const now = performance.now();
    this.fail("");
    Object.assign(this, { frame: frames[index], trailEnd: now });
    const first = Math.max(index - Math.floor(TRAIL_MS / milliseconds), 0);
    this.trail = frames.slice(first, index + 1).map(({ tip, changed }, place) => ({
      point: tip, changed: changed.length > 0, time: now - (index - first - place) * milliseconds,
    }));
    this.redraw();
  }

  // Say how old the newest frame is.
  showAge() {
    const seconds = this.frame ? Math.round((performance.now() - this.seen) / 1000) : 0;
    this.age.textContent = seconds > 2 ? `${seconds} s ago` : "";
    this.figure.classList.toggle("old", seconds > 2);
  }

  remove() {
    this.watch.disconnect();
    this.drawing?.gl.getExtension("WEBGL_lose_context")?.loseContext();
    this.drawing = null;
    this.figure.remove();
  }

  redraw() {
    this.request ??= requestAnimationFrame(() => {
      this.request = null;
      this.draw();
    });
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!this.drawing || !this.geometry || !this.frame || !width || !height) return;
    if (this.frame.version !== this.geometry.version) return; // the other one is on its way
    const scale = Math.min(devicePixelRatio, 2);
    for (const each of [this.canvas, this.paper]) {
      if (each.width === Math.round(width * scale) && each.height === Math.round(height * scale)) continue;
      [each.width, each.height] = [Math.round(width * scale), Math.round(height * scale)];
    }
    this.view.aim(width / height);
    const style = getComputedStyle(this.stage);
    const [accent, bad] = ["--accent", "--bad"].map((name) => style.getPropertyValue(name).trim());
    this.drawing.draw(this.view, this.frame.poses, parsed(style.backgroundColor), parsed(style.outlineColor));
    const paper = this.paper.getContext("2d");
    paper.setTransform(scale, 0, 0, scale, 0, 0);
    paper.clearRect(0, 0, width, height);
    this.drawTrail(paper, (point) => this.view.project(point, width, height), accent, bad);
  }

  drawTrail(paper, project, accent, bad) {
    const now = this.trailEnd ?? performance.now(); // in a recording, time passes with its steps alone
    const points = this.trail.map((each) => ({ ...each, at: project(each.point) }));
    Object.assign(paper, { lineWidth: 3, lineCap: "round", lineJoin: "round" });
    points.slice(1).forEach(({ at, changed, time, point }, index) => {
      const before = points[index];
      if (!at || !before.at || Math.hypot(...point.map((value, axis) => value - before.point[axis])) > JUMP) return;
      paper.globalAlpha = Math.max(1 - (now - time) / TRAIL_MS, 0.15);
      paper.strokeStyle = changed ? bad : accent;
      line(paper, before.at, at);
    });
    paper.globalAlpha = 1;
    const { tip, force, changed } = this.frame;
    const end = tip && project(tip);
    if (!end) return;
    paper.fillStyle = changed.length ? bad : accent;
    paper.beginPath();
    paper.arc(...end, 5, 0, 2 * Math.PI);
    paper.fill();
    const newtons = force ? Math.hypot(...force) : 0;
    if (newtons < LEAST_FORCE) return;
    const length = Math.min(newtons * METRES_PER_NEWTON, LONGEST_ARROW) / newtons;
    const head = project(tip.map((value, axis) => value + length * force[axis]));
    if (!head) return;
    const angle = Math.atan2(head[1] - end[1], head[0] - end[0]);
    const style = getComputedStyle(this.stage);
    paper.strokeStyle = paper.fillStyle = style.color;
    line(paper, end, head);
    for (const side of [-2.6, 2.6]) {
      line(paper, head, [head[0] + 9 * Math.cos(angle + side), head[1] + 9 * Math.sin(angle + side)]);
    }
    paper.font = `600 13px ${style.fontFamily}`;
    const label = [`${newtons.toFixed(1)} N`, head[0] + 8, head[1] - 6];
    paper.strokeStyle = style.backgroundColor; // so that it can be read in front of anything
    paper.strokeText(...label);
    paper.fillText(...label);
  }

  // Orbit with one pointer; move and zoom with two, with the right button or with Shift.
  listen() {
    const paper = this.paper;
    const moves = (act) => (event) => {
      act(event);
      this.redraw();
    };
    paper.addEventListener("pointerdown", (event) => {
      paper.setPointerCapture(event.pointerId);
      this.fingers.set(event.pointerId, [event.clientX, event.clientY]);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      paper.addEventListener(name, (event) => this.fingers.delete(event.pointerId));
    }
    paper.addEventListener("pointermove", moves((event) => this.drag(event)));
    paper.addEventListener("wheel", moves((event) => {
      event.preventDefault();
      this.view.zoom(Math.exp(0.001 * event.deltaY));
    }), { passive: false });
    paper.addEventListener("dblclick", moves(() => this.view.reset()));
    paper.addEventListener("contextmenu", (event) => event.preventDefault());
    paper.addEventListener("keydown", moves((event) => {
      if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      KEYS[event.key](this.view);
    }));
  }

  drag(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const now = [event.clientX, event.clientY];
    const [x, y] = [now[0] - before[0], now[1] - before[1]];
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    this.fingers.set(event.pointerId, now);
    if (other) {
      const apart = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 20);
      this.view.zoom(apart(before) / apart(now));
      this.view.move(x / 2, y / 2, this.stage.clientHeight);
    } else if (event.shiftKey || event.buttons === 2) this.view.move(x, y, this.stage.clientHeight);
    else this.view.orbit(x, y);
  }
}

// A camera that looks at a point: with its position `eye`, its axes `right`, `up` and `back`, and its `lens`, the numbers
// of the perspective projection.
class View {
  constructor() {
    this.look([1.2, -1.2, 0.9, 0, 0, 0.2, 45]);
  }

  // Take the place (3 numbers), the point looked at (3) and the vertical angle of view [degrees] of another camera.
  look(camera) {
    if (String(camera) === String(this.first)) return; // the person may have turned it
    this.first = camera;
    this.reset();
  }

  reset() {
    const [x, y, z] = [0, 1, 2].map((axis) => this.first[axis] - this.first[axis + 3]);
    this.target = this.first.slice(3, 6);
    this.distance = Math.hypot(x, y, z) || 1;
    this.yaw = Math.atan2(y, x);
    this.pitch = Math.asin(z / this.distance);
    this.zoomed = 1 / Math.tan((this.first[6] * Math.PI) / 360);
  }

  orbit(x, y) {
    this.yaw -= TURN * x;
    this.pitch = Math.min(Math.max(this.pitch + TURN * y, -1.55), 1.55);
  }

  zoom(factor) {
    this.distance = Math.min(Math.max(this.distance * factor, 0.05), 100);
  }

  // Move the point looked at by pixels of a picture of this height.
  move(x, y, height) {
    const metres = (2 * this.distance) / (this.zoomed * height);
    this.target = this.target.map((value, axis) => value + metres * (y * this.up[axis] - x * this.right[axis]));
  }

  // Compute the axes and the lens for a picture of this ratio of width and height.
  aim(ratio) {
    const [c, s, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    this.back = [c * cp, s * cp, sp];
    this.right = [-s, c, 0];
    this.up = [-c * sp, -s * sp, cp];
    this.eye = this.target.map((value, axis) => value + this.distance * this.back[axis]);
    const [near, far] = [0.02 * this.distance, 20 * this.distance + 50];
    this.lens = [this.zoomed / ratio, this.zoomed, (far + near) / (far - near), (-2 * far * near) / (far - near)];
  }

  // The place of a point in a picture [pixels]; null behind the camera.
  project(point, width, height) {
    const away = point.map((value, axis) => value - this.eye[axis]);
    const [x, y, depth] = [this.right, this.up, this.back].map((axis) => away.reduce((sum, value, i) => sum + value * axis[i], 0));
    if (depth > -0.01) return null;
    return [(width / 2) * (1 - (this.lens[0] * x) / depth), (height / 2) * (1 + (this.lens[1] * y) / depth)];
  }
}

function line(paper, from, to) {
  paper.beginPath();
  paper.moveTo(...from);
  paper.lineTo(...to);
  paper.stroke();
}

// The red, green and blue of a computed colour, from 0 to 1.
function parsed(text) {
  return text.match(/[\d.]+/g).slice(0, 3).map((part) => Number(part) / 255);
}
