// The pictures of the cameras: one is large, and the next one is inset. Touching the inset makes it the large one.

import { at, showPicture } from "/link.js";

const OLD_MS = 1500;

// `changed` is called when another camera is the large one.
export class Views {
  constructor(changed) {
    Object.assign(this, { changed, cameras: new Map(), large: null });
    at("swap").addEventListener("click", () => this.choose(this.inset));
    setInterval(() => this.showAges(), 500);
  }

  // The camera after the large one, in the order of the server; undefined if there is only one.
  get inset() {
    const names = [...this.cameras.keys()];
    return names.length > 1 ? names[(names.indexOf(this.large) + 1) % names.length] : undefined;
  }

  picture(name, blob) {
    this.cameras.set(name, { blob, seen: performance.now() });
    if (this.large === null) this.choose(name);
    else this.show(name);
  }

  choose(name) {
    this.large = name;
    for (const shown of [this.large, this.inset]) if (shown) this.show(shown);
    this.changed();
  }

  show(name) {
    const { blob } = this.cameras.get(name);
    if (name === this.large) showPicture(at("camera"), blob);
    if (name !== this.inset) return;
    at("swap").hidden = false;
    at("swap-name").textContent = name;
    showPicture(at("inset"), blob);
  }

  isOld(name) {
    return performance.now() - this.cameras.get(name).seen > OLD_MS;
  }

  // A person must not drive by an old picture while another camera has new ones.
  showAges() {
    if (this.large === null) return;
    const fresh = [...this.cameras.keys()].find((name) => !this.isOld(name));
    if (fresh !== undefined && this.isOld(this.large)) this.choose(fresh);
    at("camera").classList.toggle("old", this.isOld(this.large));
    if (this.inset) at("swap").classList.toggle("old", this.isOld(this.inset));
  }
}
