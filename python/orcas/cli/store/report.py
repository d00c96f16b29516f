"""The findings of a check in readable form: grouped by cause, with the affected objects and what to do next."""

from __future__ import annotations

from typing import Any

from orcas.cli.output import print_json, print_table, say, size
from orcas.errors import OrcasError

# Most objects that are listed here; --json lists more.
_NAMED_MAX = 20
_TAGS = ("verified", "of_customers", "without_key")
# Damage that can be repaired from the log alone.
_OF_INDEX = frozenset({"index", "counts"})
_OF_LOG = frozenset({"log-file", "log-record"})
# Damage that can keep a store from starting.
_KEEPS_FROM_STARTING = frozenset({"log-file", "log-record", "pack", "manifest"})


def _is_index_known(index: dict[str, Any]) -> bool:
    """Whether there is an index that can be read: then losses in the log are known by name."""
    return index["state"] != "absent" and not (index["detail"] or "").startswith("the index")


def show_report(report: dict[str, Any], *, as_json: bool) -> None:
    """Print the report.

    Raises:
        OrcasError: there is damage; the message says what to do next.
    """
    # A running store has read them all.
    files, given_up = report.get("lost_files", []), report.get("files_given_up", [])
    damage, denied = report.get("damaged_identities"), report.get("denied", [])
    if as_json:
        print_json(report)
    else:
        _print_sums(report)
        _print_tags(report["tags"])
        for group in report["groups"]:
            severity = group["kind"] if group["damage"] else f"{group['kind']} (harmless)"
            times = "" if group["count"] == 1 else f", {group['count']} times, the first"
            say(f"{severity}: {group['area']}: {group['cause']}{times}: {group['first']}")
        _print_objects("wrong in the index", report["affected"], report["affected_total"])
        lost = [
            f"{loss['bucket']}/{loss['key']} ({size(loss['bytes'])}): {loss['reason']}" for loss in report["losses"]
        ]
        _print_objects("lost", lost, report["losses_total"])
        _print_given_up(report.get("given_up"))
        for what, names in (("given up", given_up), ("lost", files), ("denied everything", denied)):
            for name in names:
                say(f"{what}: {name}")
        if damage is not None:
            say(f"identities: {damage}")
    if not report["clean"]:
        raise OrcasError(next_step(report))
    if files:
        _end_without(files)
    if damage is not None:
        raise OrcasError(
            "The database of identities is damaged: stop the server and run `orcas fsck --repair`, or start it again, which "
            "takes what is intact from the file and its copy."
        )
    if denied:
        from orcas.control.rescue import remedy

        raise OrcasError(f"The rights of {denied[0]} were damaged, and deny everything: {remedy(denied[0])}.")


def _end_without(files: list[str]) -> None:
    """End with what to do about these files, without which the store does not start."""
    from orcas.control.files import GIVE_UP, KEYRING_NAMES, ROOT_NAME

    needed = [name for name in files if name in {ROOT_NAME, *KEYRING_NAMES}]
    if needed:
        raise OrcasError(
            f"{' and '.join(needed)} cannot be read, so the store does not start: restore from a backup, or serve what can "
            "be read without, with `orcas serve --salvage`."
        )
    raise OrcasError(
        f"{' and '.join(files)} cannot be read, so the store does not start: restore from a backup, or run {GIVE_UP} to "
        "go on without."
    )


def _print_sums(report: dict[str, Any]) -> None:
    index, tags = report["index"], report["tags"]
    # The first difference is printed below, with all others of the same cause.
    detail = index["detail"] if index["state"] == "not compared" else None
    print_table(
        ("", "check"),
        [
            ("contents and chunks", report["blobs"]),
            ("bytes", size(report["bytes"])),
            ("log files", report["log_files"]),
            ("packs", report["packs"]),
            *([("verified by tags", tags["verified"])] if any(tags[count] for count in _TAGS) else []),
            ("index", f"{index['state']}: {detail}" if detail else index["state"]),
            ("findings", report["findings_total"]),
            ("objects lost", report["losses_total"]),
            ("seconds", f"{report['seconds']:.1f}"),
        ],
        right=1,
    )


def _print_tags(tags: dict[str, Any]) -> None:
    """Say what was encrypted and not opened."""
    if tags["without_key"]:
        why = tags["why"] or "their keys are not in the keyring, or cannot be used now"
        say(
            f"{tags['without_key']} encrypted contents, chunks and metadata were verified by their checksums, but not "
            f"by their tags: {why}."
        )
    if tags["of_customers"]:
        say(
            f"{tags['of_customers']} contents, chunks and metadata are encrypted with keys of customers, so their tags "
            "cannot be verified."
        )


def _print_objects(what: str, objects: list[str], total: int) -> None:
    for name in objects[:_NAMED_MAX]:
        say(f"{what}: {name}")
    if total > _NAMED_MAX:
        say(f"{what}: {total - _NAMED_MAX} more; --json lists up to {len(objects)}.")


def _print_given_up(given_up: dict[str, Any] | None) -> None:
    """Print what a repair gave up, which the report of the check after it cannot know."""
    if given_up is None:
        return
    objects = [f"{loss['bucket']}/{loss['key']} ({size(loss['bytes'])})" for loss in given_up["losses"]]
    _print_objects("given up", objects, given_up["losses_total"])
    records = sum(last - first + 1 for first, last in given_up["records"])
    if records:
        say(
            f"{records} records of the log could not be read. Changes that only these records described are undone, "
            "so an object that one of them deleted may reappear."
        )
    for bucket in given_up["buckets"]:
        say(f"The name of a bucket is lost. The bucket is now called {bucket}.")
    for bucket, versions in given_up["held"]:
        say(
            f"{versions} versions in {bucket} got a legal hold, because a lost record may have locked them: remove it from "
            "those that were not locked."
        )
    if given_up["kept"]:
        say(f"The damaged files are kept: remove {', '.join(given_up['kept'])} when you no longer need them.")


def next_step(report: dict[str, Any]) -> str:
    """A sentence that says what is damaged and which command to run next."""
    lost = report["losses_total"]
    kinds = {group["kind"] for group in report["groups"] if group["damage"]}
    unopenable = "; if the store does not start, `orcas fsck --repair --accept-loss` gives up the damaged parts"
    without = unopenable if kinds & _KEEPS_FROM_STARTING else ""
    if lost:
        objects = "1 object cannot" if lost == 1 else f"{lost} objects cannot"
        return (
            f"{objects} be read in full: restore from a backup with `orcas restore`, or save all other objects with "
            f"`orcas export --skip-lost`{without}."
        )
    if kinds <= _OF_INDEX:
        return (
            "The index does not match the log. No object is lost: stop the server and run `orcas fsck --repair`, "
            "which rebuilds the index."
        )
    if kinds == {"keys"} and report["index"]["state"] == "not compared":
        return (
            "Both copies of the store's keys are lost, and nothing can be verified without them: restore a backup with "
            "`orcas restore`, or see what is left with `orcas serve --salvage`."
        )
    if kinds <= _OF_INDEX | {"keys"}:
        return "A copy of the store's keys is damaged: stop the server and run `orcas fsck --repair`."
    if kinds & _OF_LOG and not _is_index_known(report["index"]):
        return (
            "The log is damaged, and without an index nobody can tell which objects that affects: restore from a backup "
            f"with `orcas restore`, or see what is left with `orcas serve --salvage`{without}."
        )
    return (
        "No object is lost, but parts of the store are damaged: check the disk, and save everything with "
        f"`orcas backup` or, if the backup fails, with `orcas export --skip-lost`{without}."
    )
