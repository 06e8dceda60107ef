// The red bar that shows what holds robots still, and the question whose answer releases it.

import { make } from "/link.js";

const at = (id) => document.getElementById(id);

// `link` sends the answer; `report` is called with a text about it. The elements are those of the page.
export class Held {
  constructor(link, report) {
    this.holds = []; // what holds robots still, and why
    let asked = []; // what the person is asked to release
    at("rearm").addEventListener("click", () => {
      asked = this.holds; // a stop that comes while the person reads is not released
      at("confirmed-holds").replaceChildren(...items(asked));
      at("confirm").returnValue = "";
      at("confirm").showModal();
    });
    at("confirm").addEventListener("close", () => {
      if (at("confirm").returnValue !== "rearm") return;
      const sent = link.send({ command: "rearm", seen: asked });
      report(sent ? "Rearm: sent" : "Not re-armed: there is no connection");
    });
  }

  show(holds) {
    this.holds = holds;
    at("held").hidden = !holds.length;
    at("holds").replaceChildren(...items(holds));
  }
}

function items(holds) {
  return holds.map(({ what, reason }) => make("li", `${what}: ${reason}`));
}
