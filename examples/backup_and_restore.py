"""Backup and restore with the `orcas` command, as a cron job would: of a running store, then only what is new, and back.

Run it with `python backup_and_restore.py`. Everything is in a temporary directory. In a shell the commands are
`orcas backup TARGET --data DIR` and `orcas restore TARGET --data NEW`; `orcas fsck --data NEW` reads all of it again.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import orcas


def command(*arguments: str | Path) -> dict:
    """Run `orcas … --json`; what it prints. A command that fails ends this program with its sentence on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "orcas", *map(str, arguments), "--json"], stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        store, backups, restored = (Path(directory, name) for name in ("store", "backups", "restored"))

        with orcas.Server(store) as server:
            s3 = server.client()
            s3.create_bucket(Bucket="photos")
            s3.put_object(Bucket="photos", Key="1.jpg", Body=b"\xff\xd8" + bytes(1_000_000))
            first = command("backup", backups, "--data", store)
            print(f"first backup: {first['copied_bytes']} of {first['bytes']} bytes copied")

            s3.put_object(Bucket="photos", Key="2.jpg", Body=b"\xff\xd8" + bytes(1000))
            second = command("backup", backups, "--data", store)
            print(f"second backup: {second['copied_bytes']} of {second['bytes']} bytes copied")

            s3.delete_object(Bucket="photos", Key="1.jpg")  # a mistake, made after the backup
            print("left in the store:", [entry["Key"] for entry in s3.list_objects_v2(Bucket="photos")["Contents"]])

        # Every byte is compared with its digest, and the store is opened once. The backup holds the keys of the store too:
        # keep it private.
        done = command("restore", backups, "--data", restored)
        print(
            f"restored: {done['objects']} objects, as of the second backup, ready for orcas.Server({restored.name!r})"
        )


if __name__ == "__main__":
    main()
