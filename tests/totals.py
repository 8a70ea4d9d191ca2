"""Totals over all test runs: what `go test -json` and pytest's JUnit files in a folder say.

Prints the output of every failed test, then one line "N passed, N failed, N skipped". A test that
ran several times (plain, under the race detector, without cgo) counts once, and as failed if it
failed once. A Go test with subtests is not counted itself. Exit status 1 if anything failed or the
expected runs are missing.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ORDER = {"skip": 0, "pass": 1, "fail": 2}  # the worse outcome of several runs wins


class Totals:
    def __init__(self) -> None:
        self.outcome: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.skipped: dict[str, str] = {}

    def add(self, name: str, outcome: str, text: str = "") -> None:
        if ORDER[outcome] >= ORDER.get(self.outcome.get(name, "skip"), 0):
            self.outcome[name] = outcome
        if outcome == "fail":
            self.failures[name] = text
        if outcome == "skip":
            self.skipped[name] = text

    def read_go(self, path: Path) -> None:
        output: dict[tuple[str, str], list[str]] = {}
        outcome: dict[tuple[str, str], str] = {}
        started: set[tuple[str, str]] = set()
        for line in path.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            at = (event.get("Package") or event.get("ImportPath", ""), event.get("Test", ""))
            match event["Action"]:
                case "run":
                    started.add(at)
                case "output" | "build-output":
                    output.setdefault(at, []).append(event.get("Output", ""))
                case "pass" | "fail" | "skip":
                    outcome[at] = event["Action"]
        for at in started - outcome.keys():  # the process died under it
            outcome[at] = "fail"
        parents = {(package, test.rpartition("/")[0]) for package, test in outcome if "/" in test}
        failed_packages = {package for (package, test), what in outcome.items() if test and what == "fail"}
        for (package, test), what in outcome.items():
            text = "".join(output.get((package, test), []))
            if test and ((package, test) not in parents or what == "fail"):
                self.add(f"{package} {test}", what, text)
            elif not test and what == "fail" and package not in failed_packages:
                self.add(f"{package} (build or set-up)", "fail", text or self._build_output(output, package))

    @staticmethod
    def _build_output(output: dict[tuple[str, str], list[str]], package: str) -> str:
        return "".join("".join(text) for (name, _), text in output.items() if name.startswith(package))

    def read_junit(self, path: Path) -> None:
        for case in ET.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            bad = [child for tag in ("failure", "error") for child in case.findall(tag)]
            skipped = case.find("skipped")
            if bad:
                self.add(name, "fail", "\n".join(child.text or child.get("message", "") for child in bad))
            elif skipped is not None:
                self.add(name, "skip", skipped.get("message", ""))
            else:
                self.add(name, "pass")


def main(folder: Path) -> int:
    totals = Totals()
    for path in sorted(folder.glob("*.json")):
        totals.read_go(path)
    for path in sorted(folder.glob("*.xml")):
        totals.read_junit(path)
    for expected in ("go.json", "go-race.json", "go-nocgo.json", "python.xml"):
        if not (folder / expected).is_file():
            totals.add(f"run {expected}", "fail", "the run left no result: it did not start, or was killed")
    for name, text in sorted(totals.failures.items()):
        print(f"--- failed: {name}\n{text.rstrip()}\n")
    skipped = {name: text for name, text in totals.skipped.items() if totals.outcome[name] == "skip"}
    for name, text in sorted(skipped.items()):
        reason = " ".join(line.strip() for line in text.splitlines() if not line.startswith(("===", "---")))
        print(f"skipped: {name}: {reason}")
    count = {what: list(totals.outcome.values()).count(what) for what in ORDER}
    print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped")
    return 1 if count["fail"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
