// The red bar that shows what holds robots still, and the question whose answer releases it.

import { at, make } from "/link.js";

const BAR = `
<section id="held" class="notice held" role="alert" hidden>
  <h2>Stopped</h2>
  <ul id="holds"></ul>
  <button id="rearm" data-linked>Rearm …</button>
  <span>or <code>robo-rl rearm</code> in a terminal</span>
</section>
<dialog id="confirm" aria-labelledby="question">
  <form method="dialog">
    <h2 id="question">Is everybody clear of the robot?</h2>
    <p>Robots that run at present continue at once. This is released:</p>
    <ul id="confirmed-holds"></ul>
    <div class="buttons">
      <button id="stay" value="">Stay stopped</button>
      <button id="clear" class="danger" value="rearm">Everybody is clear: rearm</button>
    </div>
  </form>
</dialog>`;

// `link` sends the answer; `report` is called with a text about it.
export class Held {
  constructor(link, report) {
    at("unconfirmed").insertAdjacentHTML("afterend", BAR);
    const emergency = at("emergency").cloneNode(true); // the dialog covers the header
    emergency.removeAttribute("id");
    at("stay").parentElement.append(emergency);
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
