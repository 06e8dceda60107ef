"""Tables of runs that differ in one setting: runs are trained or resumed, summarised and compared.

Runs may be stopped and started again: finished ones are kept, unfinished ones are resumed. The results are NAME.json in
docs/measured/results (every run: its summary and evaluations; those of other settings and seeds stay) and the table in
NAME.md.
"""

import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from learning_table import is_solved, row
from table_runs import ENDED, evaluations, metrics, status, table_parser, train_or_resume, with_earlier, write_json

KEYS = ("setting", "seed")
"""Fields that identify a run."""


@dataclass(frozen=True)
class SettingsTable:
    """A table with one row for each setting.

    Attributes:
        name: name of the result files, and of the folder of the runs.
        task: name of the task in the table.
        settings: options of each setting, given the folder of all runs and the seed, by the setting's name.
        common: options of all runs, also when they are resumed.
        env_steps: default of the largest number of environment steps of a run.
        logged: beginning of the names of further metrics that are kept of each evaluation.
    """

    name: str
    task: str
    settings: Mapping[str, Callable[[Path, int], Sequence[str]]]
    common: Sequence[str]
    env_steps: int
    logged: str | None = None

    def main(self, description: str | None) -> None:
        """Run the program with the arguments of the command line."""
        parser = table_parser(description, self.name)
        parser.add_argument("--settings", nargs="+", choices=self.settings, default=list(self.settings))
        parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
        parser.add_argument("--env-steps", type=int, default=self.env_steps, help="most environment steps of a run")
        parser.add_argument(
            "--only-summarise", action="store_true", help="write the table from the runs that are there"
        )
        options = parser.parse_args()
        for seed in [] if options.only_summarise else options.seeds:
            for setting in options.settings:
                self._train(setting, seed, options)
                self._write(options)
        self._write(options)

    def _train(self, setting: str, seed: int, options: Namespace) -> None:
        """Make or finish one run."""
        folder = options.runs / f"{setting}_{seed}"
        if status(folder) in ENDED:
            return
        first = [*self.settings[setting](options.runs, seed), f"seed={seed}", *options.overrides]
        train_or_resume(folder, [f"run.env_steps={options.env_steps}", *self.common], first)

    def _write(self, options: Namespace) -> None:
        """Write the results of all finished runs."""
        runs = []
        for setting in self.settings:
            for folder in sorted(options.runs.glob(f"{setting}_[0-9]*")):
                if status(folder) in ENDED:
                    runs.append(self._summary(folder) | {"setting": setting})
        runs = with_earlier(options.results / f"{self.name}.json", runs, KEYS)
        runs.sort(key=lambda run: (list(self.settings).index(run["setting"]), run["seed"]))
        write_json(options.results / f"{self.name}.json", runs)
        (options.results / f"{self.name}.md").write_text(self._table(runs))

    def _summary(self, folder: Path) -> dict:
        """Return the summary of a run, with its evaluations and the first one of at least 95 %."""
        lines, summary = metrics(folder), json.loads((folder / "summary.json").read_text())
        names = next(line for line in reversed(lines) if line["kind"] == "evaluation")
        logged = [name for name in names if self.logged is not None and name.startswith(self.logged)]
        summary["evaluations"] = evaluations(lines, *logged)
        solved = next((line for line in summary["evaluations"] if is_solved(self.task, line)), {})
        summary["steps_to_solved"], summary["wall_seconds_to_solved"] = solved.get("step"), solved.get("wall_seconds")
        return summary

    def _table(self, runs: Sequence[dict]) -> str:
        """Return the table in Markdown."""
        lines = [
            "| task | setting | seeds | steps to 95 % | robot-minutes | wall-clock minutes | success at the end |",
            "|---|---|---|---|---|---|---|",
        ]
        groups = {setting: [run for run in runs if run["setting"] == setting] for setting in self.settings}
        lines += [row(self.task, setting, group) for setting, group in groups.items() if group]
        return "\n".join(lines) + "\n"
