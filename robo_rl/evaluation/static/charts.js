// Interactive charts of runs over environment steps. uPlot is a script before this one.

const HEIGHT = 180;
const NEAR = 8; // pixels between the cursor and a stop that it names
const COLOURS = 8;

// Charts in an element: one for each curve, with all runs in it and a common cursor. Dragging enlarges a part, a double
// click shows everything again.
export class Charts {
  constructor(box) {
    this.box = box;
    this.plots = [];
    this.note = document.createElement("p");
    this.note.className = "quiet";
    this.key = `charts ${Math.random()}`;
    new ResizeObserver(() => this.plots.forEach((plot) => plot.setSize(size(plot.root.parentElement)))).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plots.forEach((plot) => plot.redraw()));
  }

  // Show runs: {name, curves: [{title, x, y, share, lines: [[name, value]]}], stops: [[step, reason]]}. The lines are
  // those of the first run.
  show(runs) {
    this.runs = runs;
    const titles = [...new Set(runs.flatMap(({ curves }) => curves.map(({ title }) => title)))];
    const lines = titles.map((title) => runs[0].curves.find((curve) => curve.title === title)?.lines ?? []);
    const shape = JSON.stringify([titles, lines, runs.map(({ name }) => name)]);
    const tables = titles.map((title) => joined(runs, title));
    if (shape === this.shape) {
      this.plots.forEach((plot, index) => plot.setData(tables[index], !this.zoomed));
      // Not otherwise: it would keep the range of steps as it was, although the run has gone on.
      if (this.zoomed) this.plots.forEach((plot) => plot.redraw());
      return;
    }
    this.plots.forEach((plot) => plot.destroy());
    const share = (title) => runs.some(({ curves }) => curves.some((curve) => curve.title === title && curve.share));
    const figures = titles.map((title, index) =>
      element("figure", element("figcaption", title), element("div"), keyOf(lines[index], share(title))));
    this.box.replaceChildren(...figures);
    this.box.after(this.note);
    this.plots = titles.map((title, index) => this.plot(title, tables[index], lines[index], figures[index].children[1]));
    [this.shape, this.zoomed] = [shape, false];
    this.name();
  }

  plot(title, table, lines, place) {
    const curves = this.runs.map((run) => run.curves.find((curve) => curve.title === title));
    const share = curves.some((curve) => curve?.share);
    const axis = { stroke: () => colour("--quiet"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false } };
    const series = this.runs.map(({ name }, index) => ({
      label: this.runs.length > 1 ? name : "value",
      stroke: () => colour(`--colour${index % COLOURS}`),
      width: 1.8,
      spanGaps: true,
      show: curves[index] !== undefined,
      points: { show: (curves[index]?.x.length ?? 0) < 2 },
      value: (plot, _, number, at) => text(latest(plot.data[number], at), share),
    }));
    const options = {
      ...size(place),
      scales: { x: { time: false }, y: { range: share ? [-0.03, 1.03] : (_, low, high) => rangeOf([low, high, ...lines.map(([, value]) => value)]) } },
      axes: [
        { ...axis, size: 28, values: (_, values) => values.map((value) => value.toLocaleString("en")) },
        { ...axis, size: 52, values: (_, values) => values.map((value) => text(value, share)) },
      ],
      series: [{ label: "step", value: (plot, _, number, at) => (latest(plot.data[0], at) ?? 0).toLocaleString("en") }, ...series],
      cursor: { sync: { key: this.key }, points: { size: 6 } },
      hooks: {
        draw: [(plot) => this.drawStops(plot), (plot) => drawLines(plot, lines)],
        setCursor: [(plot) => this.name(plot)],
        setSelect: [(plot) => (this.zoomed = plot.select.width > 0)],
      },
    };
    return new uPlot(options, table, place);
  }

  // Draw a line at each step at which a robot was stopped.
  drawStops(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--bad");
    ctx.globalAlpha = 0.6;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const [step] of this.runs.flatMap(({ stops }) => stops)) {
      const x = plot.valToPos(step, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // Say below the charts why the robot was stopped where the cursor is.
  name(plot) {
    const all = this.runs.flatMap(({ name, stops }) => stops.map(([step, reason]) => ({ name, step, reason })));
    const far = ({ step }) => Math.abs(plot.valToPos(step, "x") - plot.cursor.left);
    const stop = plot && plot.cursor.left >= 0 && all.filter((each) => far(each) < NEAR).sort((a, b) => far(a) - far(b))[0];
    const whose = this.runs.length > 1 ? `${stop?.name}, ` : "";
    if (stop) this.note.textContent = `${whose}step ${stop.step.toLocaleString("en")}: ${stop.reason}`;
    else this.note.textContent = all.length ? "Red lines: a robot was stopped. Move to one to read why." : "";
  }
}

function element(tag, ...children) {
  const made = document.createElement(tag);
  made.append(...children);
  return made;
}

// The key to the lines of a chart; empty if there are none.
function keyOf(lines, share) {
  const key = element("p", ...lines.map(([name, value]) => {
    const entry = element("span", element("i"), `${name}: ${text(value, share)}`);
    entry.className = isDotted(name) ? "dotted" : "";
    return entry;
  }));
  key.className = "key";
  return key;
}

// The line of the demonstrations is dashed, that of the first policy is dotted.
function isDotted(name) {
  return name !== "demonstrations";
}

// Draw a horizontal line at each value to compare with, in the strokes of its key.
function drawLines({ ctx, bbox, valToPos }, lines) {
  ctx.save();
  ctx.strokeStyle = colour("--quiet");
  ctx.lineWidth = 1.4 * devicePixelRatio;
  lines.forEach(([name, value]) => {
    const y = valToPos(value, "y", true);
    if (y < bbox.top || y > bbox.top + bbox.height) return;
    ctx.setLineDash((isDotted(name) ? [2, 3] : [8, 4]).map((length) => length * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  });
  ctx.restore();
}

// The range of an axis that contains all values, with a margin.
function rangeOf(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? uPlot.rangeNum(Math.min(...known), Math.max(...known), 0.1, true) : [null, null];
}

function size(place) {
  return { width: Math.max(place.clientWidth, 100), height: HEIGHT };
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

// The table of a chart: steps, and a column for each run.
function joined(runs, title) {
  const curves = runs.map((run) => run.curves.find((curve) => curve.title === title) ?? { x: [], y: [] });
  return uPlot.join(curves.map(({ x, y }) => [x, y]));
}

// The value at a row or, where a run has none there, the one before; without a row the last one.
function latest(column, row) {
  return column.slice(0, row == null ? undefined : row + 1).findLast((value) => value != null);
}

// A number, or a share in percent, in few characters.
function text(value, share) {
  if (value === undefined || value === null) return "–";
  if (share) return `${Math.round(100 * value)} %`;
  const magnitude = Math.abs(value);
  const odd = magnitude !== 0 && (magnitude < 0.001 || magnitude >= 1e5);
  return odd ? value.toExponential(1) : value.toLocaleString("en", { maximumSignificantDigits: 3 });
}
