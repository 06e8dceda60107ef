// What a run has reached: its result, its videos, its report, and the command that evaluates it again.

import { at, copies, make } from "/link.js";

copies(at("copy"), at("again"));

// Show the files and the result of a run: {files, result, again, videos, more_videos, report}.
export function showEnded(run) {
  at("result-section").hidden = run.going_on || !(run.result.length || run.again || run.report);
  at("result").replaceChildren(...run.result.map(([name, text]) => make("div", "", {}, make("dt", name), make("dd", text))));
  at("no-result").hidden = run.result.length > 0;
  at("again-line").hidden = run.again === "";
  at("again").textContent = run.again;
  at("report").hidden = run.report === "";
  at("report").href = run.files + run.report;
  showVideos(run);
}

function showVideos({ files, videos, more_videos }) {
  at("videos-section").hidden = videos.length === 0;
  at("more-videos").textContent = more_videos ? `${more_videos} more are in the folder of the run` : "";
  const shape = JSON.stringify([files, videos]);
  if (at("videos").dataset.shape === shape) return; // one that plays is not replaced
  at("videos").dataset.shape = shape;
  at("videos").replaceChildren(...videos.map(({ caption, address, poster }) => {
    const attributes = { src: files + address, controls: "", playsinline: "", preload: poster ? "none" : "metadata", "aria-label": caption };
    if (poster) attributes.poster = files + poster;
    return make("figure", "", {}, make("video", "", attributes), make("figcaption", caption));
  }));
}
