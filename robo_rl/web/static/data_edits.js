// The edits of a data set: a list of operations that can be undone, and what is left of the episodes after them.
//
// An operation is {kind, episodes, at}: `begin`, `end` and `split` at a step; `success`, `failure` and `delete` of the
// piece at a step, or of whole episodes if `at` is null. A piece is {first, stop, mark}: steps from `first` to before
// `stop`, and its corrected success, or null.

export class Edits {
  constructor(lengths, operations) {
    this.lengths = lengths;
    this.operations = operations;
  }

  add(kind, episodes, at = null) {
    this.operations.push({ kind, episodes, at });
  }

  remove(index) {
    this.operations.splice(index, 1);
  }

  // Keep the episode again: forget the deletions of it.
  restore(episode) {
    for (const operation of this.operations) {
      if (operation.kind === "delete") operation.episodes = operation.episodes.filter((each) => each !== episode);
    }
    this.operations = this.operations.filter(({ episodes }) => episodes.length);
  }

  // The pieces of an episode: one, whole and without a mark, if it is not edited; none if it is deleted.
  pieces(episode) {
    let pieces = [{ first: 0, stop: this.lengths[episode], mark: null }];
    for (const { kind, episodes, at } of this.operations) {
      if (episodes.includes(episode)) pieces = applied(pieces, kind, at, this.lengths[episode]);
    }
    return pieces;
  }

  isEdited(episode) {
    return this.operations.some(({ episodes }) => episodes.includes(episode));
  }

  // Whether an operation would change an episode.
  changes(kind, episode, at) {
    const pieces = this.pieces(episode);
    return JSON.stringify(pieces) !== JSON.stringify(applied(pieces, kind, at, this.lengths[episode]));
  }

  // The options of `robo-rl data edit`.
  options() {
    const options = { drop: [], mark_success: [], mark_failure: [], segments: [] };
    for (const episode of new Set(this.operations.flatMap(({ episodes }) => episodes))) {
      const pieces = this.pieces(episode);
      const [{ first, stop, mark } = {}] = pieces;
      if (!pieces.length) options.drop.push(episode);
      else if (pieces.length === 1 && first === 0 && stop === this.lengths[episode]) {
        if (mark) options[`mark_${mark}`].push(episode);
      } else for (const piece of pieces) options.segments.push(segment(episode, piece));
    }
    for (const name of ["drop", "mark_success", "mark_failure"]) options[name].sort((one, other) => one - other);
    return options;
  }

  // The number of episodes and steps of the new data set.
  counts() {
    const all = this.lengths.flatMap((_, episode) => (this.isEdited(episode) ? this.pieces(episode) : [null]));
    const whole = this.lengths.reduce((sum, length, episode) => sum + (this.isEdited(episode) ? 0 : length), 0);
    return { episodes: all.length, steps: all.reduce((sum, piece) => sum + (piece ? piece.stop - piece.first : 0), whole) };
  }
}

function segment(episode, { first, stop, mark }) {
  return `${episode}:${first}-${stop}${mark ? `:${mark}` : ""}`;
}

// The index of the piece with the step `at`, or -1. The last observation belongs to the last piece that ends there.
function pieceAt(pieces, at) {
  const inside = pieces.findIndex(({ first, stop }) => first <= at && at < stop);
  return inside >= 0 ? inside : pieces.findIndex(({ stop }) => stop === at);
}

function applied(pieces, kind, at, length) {
  const changed = pieces.map((piece) => ({ ...piece }));
  if (kind === "begin") {
    const index = changed.findIndex(({ stop }) => stop > at);
    if (index >= 0) changed[index].first = Math.max(at, changed[index - 1]?.stop ?? 0);
  } else if (kind === "end") {
    const index = changed.findLastIndex(({ first }) => first < at);
    if (index >= 0) changed[index].stop = Math.min(at, changed[index + 1]?.first ?? length);
  } else if (kind === "split") {
    const index = changed.findIndex(({ first, stop }) => first < at && at < stop);
    if (index >= 0) changed.splice(index, 1, { ...changed[index], stop: at }, { ...changed[index], first: at });
  } else if (at === null) {
    if (kind === "delete") return [];
    for (const piece of changed) piece.mark = kind;
  } else {
    const index = pieceAt(changed, at);
    if (index >= 0 && kind === "delete") changed.splice(index, 1);
    else if (index >= 0) changed[index].mark = kind;
  }
  return changed;
}

const WORDS = {
  begin: (at) => `begin at step ${at}`,
  end: (at) => `end at step ${at}`,
  split: (at) => `split at step ${at}`,
  success: (at) => (at === null ? "mark as a success" : `mark as a success (the piece at step ${at})`),
  failure: (at) => (at === null ? "mark as a failure" : `mark as a failure (the piece at step ${at})`),
  delete: (at) => (at === null ? "delete" : `delete the piece at step ${at}`),
};

export function describe({ kind, episodes, at }) {
  const names = episodes.length > 8 ? `${episodes.slice(0, 8).join(", ")} and ${episodes.length - 8} more` : episodes.join(", ");
  return `Episode${episodes.length > 1 ? "s" : ""} ${names}: ${WORDS[kind](at)}`;
}
