// The pictures of the cameras of a run, and its three-dimensional scenes instead of them where a person chooses so.

import { at, make, showPicture } from "/link.js";
import { Scene } from "/scene.js";

// The button that switches between pictures and scenes. The server sends what `choice` says, and nothing to a page that
// is hidden: call `send` after each new connection. `changed` is called with whether scenes are shown.
export class ViewSwitch {
  constructor(button, link, changed) {
    Object.assign(this, { button, link, changed, shows3d: false });
    button.addEventListener("click", () => this.choose(!this.shows3d));
    document.addEventListener("visibilitychange", () => this.send());
    this.choose(false);
  }

  choose(shows3d) {
    this.shows3d = shows3d;
    this.button.textContent = shows3d ? "Camera pictures" : "3D scene";
    this.changed(shows3d);
    this.send();
  }

  send() {
    this.link().send({ views: document.hidden ? "nothing" : this.shows3d ? "scene" : "cameras" });
  }
}

export class Cameras {
  // `link` returns the connection, which is made after this.
  constructor(link) {
    this.cameras = new Map(); // by robot and camera: {image, age, seen}
    this.scenes = new Map(); // by robot
    this.reason = "";
    this.views = new ViewSwitch(at("views"), link, (shows3d) => {
      at("cameras").hidden = shows3d;
      at("scenes").hidden = !shows3d;
    });
    this.clear();
    setInterval(() => this.showAges(), 1000);
  }

  // Forget what another run showed.
  clear() {
    this.cameras.clear();
    at("cameras").replaceChildren();
    for (const scene of this.scenes.values()) scene.remove();
    this.scenes.clear();
    const text = "No 3D scene has come yet. Simulations have one, and robots whose arm has a model, while they act";
    at("scenes").replaceChildren(make("p", text, { class: "quiet" }));
  }

  picture({ robot, camera }, blob) {
    const key = `${robot}/${camera}`;
    let shown = this.cameras.get(key);
    if (!shown) {
      const image = make("img", "", { alt: `${camera} of ${robot}` });
      const age = make("span");
      const figure = make("figure", "", {}, image, make("figcaption", `${robot}: ${camera} `, {}, age));
      shown = { image, age };
      if (!this.cameras.size) at("cameras").replaceChildren(); // the reason why there was none
      this.cameras.set(key, shown);
      at("cameras").append(figure);
    }
    showPicture(shown.image, blob);
    shown.seen = performance.now();
    this.showAges();
  }

  scene({ robot, ...part }) {
    if (!this.scenes.size) at("scenes").replaceChildren();
    if (!this.scenes.has(robot)) {
      this.scenes.set(robot, new Scene(robot));
      at("scenes").append(this.scenes.get(robot).figure);
    }
    this.scenes.get(robot).show(part);
  }

  // Show a text instead of pictures, until one comes.
  explain(reason) {
    this.reason = reason;
    this.showAges();
  }

  showAges() {
    for (const { image, age, seen } of this.cameras.values()) {
      const seconds = Math.round((performance.now() - seen) / 1000);
      age.textContent = seconds > 2 ? `${seconds} s ago` : "";
      image.classList.toggle("old", seconds > 2);
    }
    for (const scene of this.scenes.values()) scene.showAge();
    if (this.cameras.size || !this.reason) return;
    at("cameras").replaceChildren(make("p", this.reason, { class: "quiet" }));
  }
}
