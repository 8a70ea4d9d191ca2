"""Compares the stores of import.sh and prints what each took."""

import json
import pathlib
import sys

FORMS = ("text", "gzip", "npy")
PAGE = 4096


def files(store: pathlib.Path) -> dict[str, bytes]:
    """Every file but the manifest, and the manifest up to the record of the source, without its checksum."""
    found = {path.name: path for path in store.iterdir()}
    manifest = found.pop("MANIFEST").read_bytes()
    body = int.from_bytes(manifest[16:24], "little")
    header = manifest[:44] + manifest[48 : PAGE - 4]  # the checksum of the record, and that of this page
    content = {"MANIFEST": header + manifest[PAGE : PAGE + -(-body // PAGE) * PAGE]}
    return content | {name: path.read_bytes() for name, path in found.items()}


def main() -> None:
    folder, text, lines, count_seconds = (
        pathlib.Path(sys.argv[1]),
        pathlib.Path(sys.argv[2]),
        sys.argv[3],
        float(sys.argv[4]),
    )
    size = text.stat().st_size
    for form in FORMS:
        report = json.loads((folder / f"import-{form}.json").read_text())
        stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in report["stage_seconds"].items())
        speed = f", {size / report['seconds'] / 1e6:.0f} MB/s of text" if form != "npy" else ""
        moved = (report["bytes_read"] + report["bytes_written"]) / report["input_bytes"]
        print(f"{form:<5} {report['seconds']:.1f} s{speed}; {moved:.2f} x the input moved; {stages}")
    print(f"zcat | wc -l: {lines} lines, {count_seconds:.1f} s, {size / count_seconds / 1e6:.0f} MB/s of text")
    first = files(folder / f"import-{FORMS[0]}")
    for form in FORMS[1:]:
        other = files(folder / f"import-{form}")
        unlike = sorted(name for name in first.keys() | other.keys() if first.get(name) != other.get(name))
        if unlike:
            raise SystemExit(f"the stores of {FORMS[0]} and {form} differ in {', '.join(unlike)}")
    print("the stores are equal")


if __name__ == "__main__":
    main()
