"""The tables of bench/lab/objects, from the runs of objects_runs.py.

objects_tables.py RUNS.jsonl [IMAGES.jsonl [BOOTS.jsonl]]   Markdown, columns aligned
"""
import json
import sys
from statistics import median

TITLES = {
    "seq128k": "the first 256 MiB of 1 GiB, 128 KiB reads",
    "whole128k": "all of 1 GiB, 128 KiB reads",
    "seq4m": "the first 256 MiB of 1 GiB, 4 MiB reads",
    "inter2": "all of 256 MiB at 2 positions of one handle in turns, 128 KiB reads",
    "inter8": "all of 256 MiB at 8 positions of one handle in turns, 128 KiB reads",
    "rand64k": "150 random reads of 64 KiB",
    "rand64k-16": "4000 random reads of 64 KiB by 16 threads",
    "paced32": "32 files, 1 MB/s each, for 4 s",
    "reread": "64 MiB once more",
}


def read(path):
    return [json.loads(line) for line in open(path)]


def shown(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def spread(values):
    """The median, and the least and the most of several."""
    values = sorted(v for v in values if v is not None)
    if not values:
        return "-"
    middle = shown(median(values))
    return middle if len(values) == 1 else f"{middle} [{shown(values[0])}-{shown(values[-1])}]"


def table(rows):
    """Rows of cells, the first one the head; all but the first column to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            rules = ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
            print("| " + " | ".join(rules) + " |")


class Runs:
    def __init__(self, runs):
        self.good = [run for run in runs if "error" not in run]
        self.bad = [run for run in runs if "error" in run]
        self.rate = {(r["link"], r["work"], r["reader"], r["round"]): r["mb_per_s"]
                     for r in self.good}

    def of(self, link, work, reader):
        return [r for r in self.good if (r["link"], r["work"], r["reader"]) == (link, work, reader)]

    def names(self, key, **where):
        seen = {}
        for run in self.good:
            if all(run[name] == value for name, value in where.items()):
                seen[run[key]] = None
        return list(seen)

    def ratio(self, link, work, reader, to):
        """The medians over rounds of the ratio to another run of the same round, at another place
        (link, work, reader)."""
        ratios = []
        for run in self.of(link, work, reader):
            other = self.rate.get((*to, run["round"]))
            if other:
                ratios.append(run["mb_per_s"] / other)
        return spread(ratios)


def amplification(run):
    return run["store"]["bytes"] / run["bytes"]


def per_100_mb(run):
    return run["store"]["gets"] / run["bytes"] * 1e8


def cpu(run):
    return run["cpu_s"] / run["bytes"] * 1e9


COLUMNS = {
    "bytes": lambda r: amplification(r),
    "GETs/100 MB": per_100_mb,
    "at once": lambda r: r["store"]["at_once_max"],
    "first ms": lambda r: r["first_ms"],
    "RSS MB": lambda r: r["rss_kib"] / 1000,
    "CPU s/GB": cpu,
}


def rates(runs, link, work):
    """Rates beside the limit and, at positions, beside one's own sequential reads."""
    own, beside = {"inter2": "seq128k", "inter8": "seq128k"}.get(work), ["of own sequential"]
    if link == "C":
        own, beside = work, ["of own on A"]
    head = ["", "MB/s", "of the limit", *(beside if own else []), *COLUMNS]
    rows = [head]
    for reader in runs.names("reader", link=link, work=work):
        some = runs.of(link, work, reader)
        row = [reader, spread(r["mb_per_s"] for r in some),
               runs.ratio(link, work, reader, (link, "limit16", "gets"))]
        if own:
            row.append(runs.ratio(link, work, reader, ("A" if link == "C" else link, own, reader)))
        rows.append(row + [spread(map(column, some)) for column in COLUMNS.values()])
    table(rows)


def latencies(runs, link, work):
    rows = [["", "ms: p50", "p99", "p99.9", "most", "rate, of bare GETs", "p99.9 / p50", "bytes",
             "GETs", "CPU s/GB"]]
    for reader in runs.names("reader", link=link, work=work):
        some = runs.of(link, work, reader)
        quantiles = (f"{q}_ms" for q in ("p50", "p99", "p999", "max"))
        rows.append([reader, *(spread(r[q] for r in some) for q in quantiles),
                     runs.ratio(link, work, reader, (link, work, "gets")),
                     spread(r["p999_ms"] / r["p50_ms"] for r in some),
                     spread(map(amplification, some)), spread(r["store"]["gets"] for r in some),
                     spread(map(cpu, some))])
    table(rows)


def paced(runs, link, work):
    rows = [["", "late ms, worst", "beyond a GET", "bytes", "GETs", "RSS MB", "CPU s/GB"]]
    get = {r["round"]: r["p50_ms"] for r in runs.of(link, work, "gets")}
    middle = median(get.values()) if get else 0
    for reader in runs.names("reader", link=link, work=work):
        some = runs.of(link, work, reader)
        rows.append([reader, spread(r["late_ms"] for r in some),
                     spread(r["late_ms"] - get.get(r["round"], middle) for r in some),
                     *(spread(map(f, some)) for f in (amplification, lambda r: r["store"]["gets"],
                                                     lambda r: r["rss_kib"] / 1000, cpu))])
    table(rows)


def again(runs, link, work):
    rows = [["", "MB/s", "GETs", "bytes of the store"]]
    for reader in runs.names("reader", link=link, work=work):
        some = runs.of(link, work, reader)
        rows.append([reader, spread(r["mb_per_s"] for r in some),
                     spread(r["store"]["gets"] for r in some),
                     spread(r["store"]["bytes"] for r in some)])
    table(rows)


FORMS = {"rand64k": latencies, "rand64k-16": latencies, "paced32": paced, "reread": again}


def limits(runs):
    rows = [["link", "16 connections, MB/s", "64 connections", "CPU s/GB of the GETs"]]
    for link in runs.names("link"):
        cells = [spread(r["mb_per_s"] for r in runs.of(link, f"limit{n}", "gets"))
                 for n in (16, 64)]
        if cells != ["-", "-"]:
            rows.append([link, *cells, spread(map(cpu, runs.of(link, "limit16", "gets")))])
    print("\n## The limit: plain GETs of 8 MiB\n")
    table(rows)


def images(path):
    rows = [["", "s", "GETs", "MB", "due, s", "times that"]]
    for name in dict.fromkeys(it["what"] for it in read(path)):
        some = [it for it in read(path) if it["what"] == name]
        rows.append([name, *(spread(it[key] for it in some)
                             for key in ("seconds", "gets", "mb", "due", "times"))])
    print("\n## In an ext4 image in the bucket, link A\n")
    table(rows)


def boots(path):
    rows = [["disk", "s to the login line", "beside foreread", "MB", "GETs"]]
    them = read(path)
    ours = {it["round"]: it["seconds"] for it in them if it["disk"].startswith("foreread serve")}
    for name in dict.fromkeys(it["disk"] for it in them):
        some = [it for it in them if it["disk"] == name]
        beside = spread(it["seconds"] / ours[it["round"]] for it in some if it["round"] in ours)
        rows.append([name, spread(it["seconds"] for it in some), beside,
                     *(spread(it[key] for it in some) for key in ("mb", "gets"))])
    print("\n## QEMU from an image in the bucket, link A\n")
    table(rows)


def main():
    runs = Runs(read(sys.argv[1]))
    limits(runs)
    for link in runs.names("link"):
        for work in runs.names("work", link=link):
            if work in TITLES:
                print(f"\n## {link}: {TITLES[work]}\n")
                FORMS.get(work, rates)(runs, link, work)
    if runs.bad:
        print("\nWithout a figure:\n")
        for run in runs.bad:
            print(f"- {run['reader']}, {run['work']}")
    for form, path in zip((images, boots), sys.argv[2:]):
        if len(open(path).read()) > 0:
            form(path)


main()
