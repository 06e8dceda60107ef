// Small pictures of episodes, which are requested when they become visible.

import { make } from "/link.js";

const MOST_LOADING = 3; // thumbnails that are requested at the same time
const MOST_ATTEMPTS = 3; // a busy machine may answer too late
const RETRY_MS = 2000;
const SVG = "http://www.w3.org/2000/svg";
const TITLES = { path: "Path of the end effector from above" };

// `ask(request, details)` returns a promise of the server's answer.
export class Thumbnails {
  constructor(ask) {
    this.ask = ask;
    this.waiting = []; // boxes that are visible and have no picture yet
    this.loading = 0;
    this.visible = new IntersectionObserver((entries) => this.see(entries), { rootMargin: "200px" });
  }

  // Make a box for the pictures of an episode: 1, or the first, middle and last in a box of an aspect ratio.
  make(path, episode, pictures = 1, aspect = null) {
    const box = make("span", "", { class: "thumbnail" });
    if (aspect) box.style.aspectRatio = aspect;
    box.request = { path, episode, pictures };
    this.visible.observe(box);
    return box;
  }

  see(entries) {
    for (const { target, isIntersecting } of entries) {
      const index = this.waiting.indexOf(target);
      if (isIntersecting && index < 0) this.waiting.push(target);
      else if (!isIntersecting && index >= 0) this.waiting.splice(index, 1);
    }
    this.load();
  }

  async load() {
    if (!this.waiting.length || this.loading >= MOST_LOADING) return;
    const box = this.waiting.shift();
    this.loading += 1;
    this.load();
    try {
      const answer = await this.ask("thumbnail", box.request);
      this.visible.unobserve(box);
      if (answer instanceof Blob) {
        const image = make("img", "", { alt: "" });
        image.onload = () => URL.revokeObjectURL(image.src);
        image.src = URL.createObjectURL(answer);
        box.replaceChildren(image);
      } else box.replaceChildren(...answer.drawings.map(draw));
    } catch {
      box.textContent = "no picture"; // the reason is shown with the episode
      this.visible.unobserve(box);
      box.attempts = (box.attempts ?? 0) + 1;
      if (box.attempts < MOST_ATTEMPTS) setTimeout(() => this.visible.observe(box), RETRY_MS);
    }
    this.loading -= 1;
    this.load();
  }
}

// A line in [0, 1] as a small drawing with its name.
function draw({ kind, line }) {
  const wide = kind === "path" ? 100 : 160;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `-5 -5 ${wide + 10} 110`);
  svg.setAttribute("role", "img");
  const title = document.createElementNS(SVG, "title");
  title.textContent = TITLES[kind] ?? `${kind} over time`;
  svg.append(title);
  const points = line.filter(([x, y]) => x !== null && y !== null).map(([x, y]) => [x * wide, 100 - 100 * y]);
  const shape = document.createElementNS(SVG, "polyline");
  shape.setAttribute("points", points.map((point) => point.join(",")).join(" "));
  shape.setAttribute("class", kind === "path" ? "line0" : "line2");
  svg.append(shape);
  if (kind === "path" && points.length) {
    const end = document.createElementNS(SVG, "circle");
    [["cx", points.at(-1)[0]], ["cy", points.at(-1)[1]], ["r", 4]].forEach(([name, value]) => end.setAttribute(name, value));
    svg.append(end);
  }
  const drawing = make("span", "", { class: "drawing" }, make("small", kind));
  drawing.prepend(svg);
  return drawing;
}
